"""The end of a sealed log is cut off, so that the log itself does not notice, while a sealer runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from binlog.seal import Rule, SigningKey, begin_seal, parse_anchor, verify
from stress.tamper.sealed_log import make_again
from tests.support.checkout import ROOT
from tests.support.logs import read_all
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")
RECORDS = [[b"%d.%d" % (number, place) for place in range(300)] for number in range(2)]
# Of a sealer that signs each second, which stops within two on a machine with nothing else to do.
SECONDS_MAX = 5.0


def _fill(log: Path, state: str) -> None:
    """Make a log whose last record is in a file of this state."""
    with Writer(log, mode="flush") as writer:
        begin_seal(log, KEY)
        writer.append_many(RECORDS[0])
        writer.cutover()
        writer.append_many(RECORDS[1])
        writer.sync()
        if state != "open":
            writer.cutover()
    if state == "archived":
        assert [each.problem for each in binlog.archive(log, keep_last=0)] == [None, None]


def _forge(log: Path, folder: Path, state: str, last: list[bytes]) -> None:
    """Replace the files by those of a log without the last record, whose checksums fit.  last: records in its place."""
    identity = uuid.UUID(str(binlog.stat(log).files[0].uuid))
    files = [RECORDS[0], RECORDS[1][:-1] + last, *([[]] if state != "open" else [])]
    folder.mkdir()
    make_again(folder, identity, files)
    if state == "archived":
        binlog.archive(folder, keep_last=0)
    for path in log.glob("0*.idx"):
        path.unlink()
    for path in sorted(folder.glob("00000002.dat*")) + sorted(folder.glob("00000003.dat")):
        os.replace(path, log / path.name)
    assert binlog.check(log) == []
    assert read_all(log) == RECORDS[0] + RECORDS[1][:-1] + last


@pytest.mark.parametrize("state", ["open", "closed", "archived"])
@pytest.mark.parametrize("last", [[], [b"1.xxx"]], ids=["cut", "cut and continued"])
def test_a_running_sealer_stops_when_the_end_is_cut(
    tmp_path: Path, figure: Callable[[str], None], state: str, last: list[bytes]
) -> None:
    log, kept, key = tmp_path / "log", tmp_path / "anchor", tmp_path / "key"
    kept.mkdir()
    KEY.save(key)
    _fill(log, state)
    command = [sys.executable, "-m", "binlog", "seal", "run", str(log), "--key", str(key), "--anchor", f"dir:{kept}"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as sealer:
        try:
            anchor = parse_anchor(f"dir:{kept}")
            until(lambda: anchor.latest(KEY.verifier.name) is not None)
            _forge(log, tmp_path / "forged", state, last)
            begin = time.monotonic()
            _, said = sealer.communicate(timeout=60)
            seconds = time.monotonic() - begin
        finally:
            sealer.kill()
    assert sealer.returncode == 1, said
    assert "differs from its seal" in said
    assert seconds < SECONDS_MAX
    figure(f"a running sealer stopped {seconds:.1f} s after a cut")
    note = anchor.latest(KEY.verifier.name)
    assert note is not None
    report = verify(log, str(KEY.verifier), checkpoints=[note])
    assert (report.size, report.verified) == (600, 599 + len(last))
    [finding] = report.findings
    if last:
        assert (finding.rule, finding.leaf) == (Rule.CHANGED, 599)
    else:
        assert (finding.rule, finding.text) == (Rule.CUT, "1 of 600 sealed records are missing at the end")

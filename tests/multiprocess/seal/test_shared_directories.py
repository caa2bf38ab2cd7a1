"""Writers in two containers share a log's directory, and no memory; one sealer makes one tree of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import binlog
from binlog import Writer
from binlog.seal import SigningKey, begin_seal, stat_seal, verify
from tests.support.checkout import ROOT
from tests.support.logs import job, jobs_by_writer, read_all
from tests.support.namespaces import container
from tests.support.waiting import until

KEY = SigningKey.generate("example.org/audit")
WRITERS, COUNT = 2, 300

_WRITER = """
import sys
import binlog
from tests.support.logs import job
log, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with binlog.Writer(log, cutover_bytes=8000) as opened:
    for number in range(count):
        opened.append(job(writer, number))
"""


def test_writers_without_common_memory_have_one_tree(tmp_path: Path) -> None:
    log, key = tmp_path / "log", tmp_path / "key"
    KEY.save(key)
    with Writer(log) as writer:
        writer.append(job(99, 0))
    begin_seal(log, KEY)
    places = [tmp_path / "one", tmp_path / "two"]
    prefixes = [container(log, place) for place in places]
    command = [sys.executable, "-m", "binlog", "seal", "run", str(log), "--key", str(key), "--every", "0.01s"]
    with subprocess.Popen(command, cwd=ROOT) as sealer:
        try:
            writers = [
                subprocess.Popen(
                    [*prefix, sys.executable, "-c", _WRITER, str(place), str(WRITERS * group + number), str(COUNT)],
                    cwd=ROOT,
                )
                for group, (prefix, place) in enumerate(zip(prefixes, places, strict=True))
                for number in range(WRITERS)
            ]
            assert [process.wait() for process in writers] == [0] * len(writers)
            until(lambda: sealer.poll() is not None or stat_seal(log).size == 1 + len(writers) * COUNT)
        finally:
            sealer.terminate()
    assert sealer.returncode == 0
    found = jobs_by_writer(read_all(log))
    assert found == {99: [0], **{number: list(range(COUNT)) for number in range(len(writers))}}
    assert len(binlog.stat(log).files) > 3
    report = verify(log, str(KEY.verifier))
    assert (report.findings, report.verified, report.unsealed) == ([], 1 + len(writers) * COUNT, 0)
    assert binlog.check(log) == []

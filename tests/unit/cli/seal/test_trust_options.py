"""`--trust` of `cat` and `tail`: a log that was cut is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from binlog import Writer
from binlog.cli.main import main
from binlog.seal import Sealer, SigningKey, begin_seal

KEY = SigningKey.generate("example.org/audit")


def _append_and_seal(log: Path, record: bytes) -> None:
    with Writer(log) as writer:
        writer.append(record)
    with Sealer(log, KEY) as sealer:
        sealer.seal()


@pytest.mark.parametrize("command", ["cat", "tail"])
def test_a_log_that_was_cut_is_refused(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    Writer(log).close()
    begin_seal(log, KEY)
    _append_and_seal(log, b"one")
    shutil.copytree(log, copy)
    _append_and_seal(log, b"two")
    trust = ["--trust", str(KEY.verifier), "--trust-state", str(tmp_path / "seen")]
    assert main([command, str(log), *trust]) == 0
    assert capfd.readouterr().out == "one\ntwo\n"
    shutil.rmtree(log)
    shutil.copytree(copy, log)
    assert main([command, str(log), *trust]) == 1
    captured = capfd.readouterr()
    assert (captured.out, "was cut" in captured.err) == ("", True)
    assert main([command, str(log)]) == 0
    for words in (trust[:2], trust[2:], [*trust, str(copy)]):
        assert main([command, str(log), *words]) == 2

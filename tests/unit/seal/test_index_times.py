"""An index that was built again has later times than the checkpoints, which is no finding; forged ones are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from binlog import Writer
from binlog.seal import Rule, Sealer, SigningKey, begin_seal, verify
from tests.support.indexes import date_entries

KEY = SigningKey.generate("example.org/audit")


def _sealed(log: Path) -> Path:
    """Seal a log, and return the path of its only file."""
    with Writer(log) as writer:
        for number in range(20):
            writer.append(b"record %d" % number)
    begin_seal(log, KEY)
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    return log / "00000001.dat"


def test_an_index_that_was_built_again_has_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _sealed(tmp_path)
    file.with_suffix(".idx").unlink()
    Writer(tmp_path).close()  # as after a power cut, which did not keep the index
    assert file.with_suffix(".idx").exists()
    # As if the checkpoint had been signed an hour before.
    monkeypatch.setattr("binlog.seal.verifying.index_times._LATER_SECONDS", -3600)
    assert verify(tmp_path, str(KEY.verifier)).findings == []


def test_times_that_the_file_cannot_have_are_a_finding(tmp_path: Path) -> None:
    _sealed(tmp_path)
    date_entries(tmp_path, 1, lambda *_: time.time() + 3600)
    assert [each.rule for each in verify(tmp_path, str(KEY.verifier)).findings] == [Rule.INDEX_TIME]

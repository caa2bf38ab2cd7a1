"""A reader that keeps a checkpoint finds that the log was cut, or has another history."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from binlog import Writer
from binlog.errors import NotFoundError, SealError
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import parse_note
from binlog.seal import Sealer, SigningKey, Trust, begin_seal
from tests.support.children import Child

KEY = SigningKey.generate("example.org/audit")
VKEY = str(KEY.verifier)


def _append_and_seal(log: Path, *records: bytes) -> None:
    with Writer(log) as writer:
        writer.append_many(records)
    with Sealer(log, KEY) as sealer:
        sealer.seal()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    Writer(path).close()
    begin_seal(path, KEY)
    _append_and_seal(path, b"one", b"two")
    return path


@pytest.mark.slow
def test_a_log_that_grows_is_trusted(log: Path, tmp_path: Path) -> None:
    for size in range(2, 600, 99):
        assert Trust(log, VKEY, tmp_path / "state").check().size == size
        assert Trust(log, VKEY, tmp_path / "state").check().size == size
        _append_and_seal(log, *[b"%d" % number for number in range(99)])


def test_a_log_that_was_cut_is_not(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "copy")
    _append_and_seal(log, b"three")
    assert Trust(log, VKEY, tmp_path / "state").check().size == 3
    shutil.rmtree(log)
    shutil.copytree(tmp_path / "copy", log)
    with pytest.raises(SealError, match="was cut: 2 records are sealed, and there were 3"):
        Trust(log, VKEY, tmp_path / "state").check()
    _append_and_seal(log, b"other", b"more")
    with pytest.raises(SealError, match="another history: its first 3 records"):
        Trust(log, VKEY, tmp_path / "state").check()
    # A reader without a state can only trust what it finds.
    assert Trust(log, VKEY, tmp_path / "new").check().size == 4


def test_other_keys_and_missing_seals_are_not_trusted(log: Path, tmp_path: Path) -> None:
    other = str(SigningKey.generate("example.org/audit").verifier)
    with pytest.raises(SealError, match="is not signed by"):
        Trust(log, other, tmp_path / "state").check()
    (log / "seal" / "checkpoint").unlink()
    with pytest.raises(SealError, match="has no checkpoint"):
        Trust(log, VKEY, tmp_path / "state").check()
    shutil.rmtree(log / "seal")
    with pytest.raises(NotFoundError):
        Trust(log, VKEY, tmp_path / "state").check()


def _check_until_stopped(log: Path, state: Path, stop: Path) -> None:
    reader = Trust(log, VKEY, state)
    sizes = [reader.check().size]
    while not stop.exists():
        sizes.append(reader.check().size)
    assert sizes == sorted(sizes)


@pytest.mark.slow
def test_readers_share_a_state(log: Path, tmp_path: Path) -> None:
    state, stop = tmp_path / "state", tmp_path / "stop"
    readers = [Child(_check_until_stopped, log, state, stop) for _ in range(3)]
    kept = []
    try:
        for number in range(15):
            _append_and_seal(log, b"%d" % number)
            if state.exists():
                kept.append(parse_checkpoint(parse_note(state.read_bytes()).text).size)
    finally:
        stop.touch()
        for reader in readers:
            reader.join()
    assert kept == sorted(kept) != []
    assert Trust(log, VKEY, state).check().size == 17

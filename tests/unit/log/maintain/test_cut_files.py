"""Log files that are cut while they are open, as by logrotate's copytruncate."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Ref, Writer
from binlog.errors import CorruptError
from binlog.log.maintain.fillers import FILLER
from tests.support.logs import read_all


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log in which `check` may report problems at the end of a test."""
    return tmp_path / "log"


CUTS = pytest.mark.parametrize("size", [0, 100, 256, 700])
FILE = "00000001.dat"


def _copy_and_cut(log: Path, size: int) -> None:
    shutil.copyfile(log / FILE, log / f"{FILE}.1")
    os.truncate(log / FILE, size)


@CUTS
@pytest.mark.parametrize("mode", [Mode.SYNC, Mode.FLUSH])
def test_a_cut_file_is_appended_to_again_after_a_repair(log: Path, size: int, mode: Mode) -> None:
    with Writer(log, mode=mode) as writer:
        for number in range(50):
            writer.append(b"%d" % number * 10)
        writer.sync()
        _copy_and_cut(log, size)
        with pytest.raises(CorruptError):
            writer.append(b"refused")
        assert {"truncated", "short-header"} & {each.rule for each in binlog.check(log)}
        told = binlog.repair(log, dry_run=True)
        assert [each for each in told if "lost" in each.text]
        assert (log / FILE).stat().st_size == size
        assert binlog.repair(log) == told
        # No offset of a lost record is used twice.
        assert writer.append(b"after") == Ref(2, 256)
    kept = read_all(log)
    assert kept[-1] == b"after"
    assert kept[:-1] == [b"%d" % number * 10 for number in range(len(kept) - 1)]
    # Records that were flushed together have one checksum, so nothing proves a part of them.
    assert (len(kept) > 1) is (size == 700 and mode is Mode.SYNC)
    assert [each.rule for each in binlog.check(log)] == ["moved"]
    (log / f"{FILE}.1").unlink()
    assert binlog.check(log) == []
    assert binlog.repair(log) == []


@CUTS
def test_a_closed_file_that_was_cut_is_readable_after_a_repair(log: Path, size: int) -> None:
    with Writer(log) as writer:
        for number in range(50):
            writer.append(b"%d" % number * 10)
        writer.cutover()
        writer.append(b"after")
        os.truncate(log / FILE, size)
        assert any("lost" in each.text for each in binlog.repair(log))
        writer.append(b"more")
    found = read_all(log)
    assert (len(found), found[-2:]) == (52, [b"after", b"more"])
    # The next file's sequence numbers show how many records are missing, and fillers replace them.
    kept = [record for record in found[:-2] if not record.startswith(FILLER)]
    assert kept == [b"%d" % number * 10 for number in range(len(kept))]
    assert found[: len(kept)] == kept
    assert {each.rule for each in binlog.check(log)} == {"quarantined"}
    assert binlog.repair(log) == []
    for path in log.glob("*.damaged"):
        path.unlink()


def test_sequence_numbers_continue_after_a_file_that_was_cut(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(5):
            writer.append(b"%d" % number)
        writer.cutover()
        writer.append(b"lost")
    os.truncate(log / "00000002.dat", 0)
    (log / "00000002.idx").unlink()
    binlog.repair(log)
    with Writer(log) as writer:
        writer.append(b"after")
    assert read_all(log) == [b"0", b"1", b"2", b"3", b"4", b"after"]
    assert binlog.check(log) == []


def test_a_renamed_file_is_reported(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        os.rename(log / FILE, log / f"{FILE}-20261126")
        writer.append(b"2")
        assert [(each.rule, each.path) for each in binlog.check(log)] == [("moved", str(log / f"{FILE}-20261126"))]
    (log / f"{FILE}.note").write_text("nothing of the log's")
    assert [each.rule for each in binlog.check(log)] == ["moved"]

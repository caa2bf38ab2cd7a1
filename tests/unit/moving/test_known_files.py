"""Which file was imported before: renamed, copied, truncated and written again, with an inode used again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import binlog
from binlog import BusyError, CorruptError, StateError
from binlog.moving import import_records
from binlog.moving.importing import importing, known_files
from tests.support.logs import read_all


def _write(path: Path, *numbers: int) -> None:
    with path.open("a") as file:
        file.writelines(f"{number}\n" for number in numbers)


def _imported(log: Path, *paths: Path) -> list[int]:
    """Import these files, and return the numbers in the log."""
    for path in paths:
        import_records(log, path, "jsonl")
    return [int(record) for record in read_all(log)]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A file that is written, with three lines."""
    path = tmp_path / "app.log"
    _write(path, 1, 2, 3)
    return path


def test_an_import_continues_where_the_last_one_ended(log: Path, app: Path) -> None:
    assert _imported(log, app) == [1, 2, 3]
    assert _imported(log, app) == [1, 2, 3]
    _write(app, 4)
    assert _imported(log, app) == [1, 2, 3, 4]


def test_a_renamed_file_continues_and_the_new_one_begins(log: Path, app: Path) -> None:
    _imported(log, app)
    _write(app, 4)
    rotated = app.rename(app.with_name("app.log.1"))
    _write(app, 5)
    assert _imported(log, rotated, app) == [1, 2, 3, 4, 5]
    rotated = rotated.rename(app.with_name("app.log.2"))
    assert _imported(log, rotated, app) == [1, 2, 3, 4, 5]


def test_a_file_that_was_copied_and_truncated_continues_as_the_copy(log: Path, app: Path) -> None:
    _imported(log, app)
    _write(app, 4)
    copy = app.with_name("app.log.1")
    shutil.copy(app, copy)
    os.truncate(app, 0)
    _write(app, 5)
    assert _imported(log, copy, app) == [1, 2, 3, 4, 5]
    # The copy is known by its own inode now, also if the file that it was copied from is gone.
    app.unlink()
    _write(copy, 6)
    assert _imported(log, copy) == [1, 2, 3, 4, 5, 6]


def test_a_truncated_file_begins_again(log: Path, app: Path) -> None:
    _imported(log, app)
    os.truncate(app, 0)
    assert _imported(log, app) == [1, 2, 3]
    _write(app, 7, 8, 9, 10)  # longer than before
    assert _imported(log, app) == [1, 2, 3, 7, 8, 9, 10]


def test_a_file_that_gets_the_inode_of_an_earlier_one_begins_at_its_beginning(log: Path, app: Path) -> None:
    _imported(log, app)
    inode = app.stat().st_ino
    # The same inode with other bytes, as if the file system had given a freed inode to the next file.
    app.write_text("4\n5\n6\n7\n")
    other = app.rename(app.with_name("other.log"))
    assert other.stat().st_ino == inode
    assert _imported(log, other) == [1, 2, 3, 4, 5, 6, 7]


def test_a_file_that_begins_with_the_same_lines_is_another_one(log: Path, app: Path) -> None:
    _imported(log, app)
    other = app.with_name("other.log")
    _write(other, 1, 2, 3, 4)
    assert _imported(log, other) == [1, 2, 3, 1, 2, 3, 4]
    third = app.with_name("third.log")
    _write(third, 1, 2, 3)
    app.unlink()
    assert _imported(log, third) == [1, 2, 3, 1, 2, 3, 4, 1, 2, 3]


def test_a_new_file_in_the_place_of_a_renamed_one_may_begin_with_the_same_lines(log: Path, app: Path) -> None:
    _imported(log, app)
    rotated = app.rename(app.with_name("app.log.1"))
    _write(app, 1, 2, 3, 4)
    assert _imported(log, app, rotated) == [1, 2, 3, 1, 2, 3, 4]


def test_a_device_with_another_number_is_the_same_under_the_same_path(
    log: Path, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = known_files.described_file

    def renumbered(path: str, fd: int) -> known_files.KnownFile:
        found = described(path, fd)
        return known_files.replace(found, device=found.device + 1)

    monkeypatch.setattr(importing, "described_file", renumbered)
    _imported(log, app)
    monkeypatch.undo()
    _write(app, 4)
    assert _imported(log, app) == [1, 2, 3, 4]


def test_a_file_that_is_truncated_during_its_import_is_refused(
    log: Path, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_BATCH_RECORDS", 1)
    with pytest.raises(StateError, match="was truncated"):
        import_records(log, app, "jsonl", on_append=lambda _: os.truncate(app, 0))
    assert [int(record) for record in read_all(log)] == [1]


def test_one_process_at_a_time_imports_files(log: Path, app: Path) -> None:
    _imported(log, app)
    with (
        held_by_another_process(log / ".import.lock"),
        pytest.raises(BusyError, match="another process imports a file"),
    ):
        import_records(log, app, "jsonl")
    assert _imported(log, app) == [1, 2, 3]


@contextmanager
def held_by_another_process(path: Path) -> Iterator[None]:
    """Hold the lock of a file, as an import in another process does."""
    program = (
        f"import fcntl; file = open({str(path)!r}, 'r+'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate(b"\n")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[20] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(("damage", "readable"), [(_flip, True), (lambda path: path.write_bytes(b"nonsense"), False)])
def test_a_damaged_place_is_mended_or_refused_and_never_ignored(
    log: Path, app: Path, damage: Callable[[Path], None], readable: bool
) -> None:
    _imported(log, app)
    (place,) = log.glob("*.import")
    damage(place)
    if readable:
        assert _imported(log, app) == [1, 2, 3]
        return
    with pytest.raises(CorruptError, match="it is not the place of an import"):
        _imported(log, app)


def test_a_backup_knows_what_was_imported(log: Path, app: Path) -> None:
    _imported(log, app)
    copy = log.with_name("copy")
    binlog.backup(log, copy)
    _write(app, 4)
    assert _imported(copy, app) == [1, 2, 3, 4]

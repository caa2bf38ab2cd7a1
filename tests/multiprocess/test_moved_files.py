"""Log files and directories that are moved, removed or replaced while processes have them open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Reader, Writer
from binlog.errors import BinlogError, GoneError
from binlog.format.log_header import LOG_HEADER
from binlog.log.read import cursor
from tests.support.logs import read_all

MODES = pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "above" / "log"


def _make(log: Path) -> None:
    log.parent.mkdir()
    with Writer(log) as writer:
        writer.append(b"before")


def _elsewhere(code: str, *arguments: object) -> str:
    """Run code in another process, whose log is `log`."""
    script = f"import sys, os, shutil, binlog\nfrom binlog import Mode, Writer, Reader\nlog = sys.argv[1]\n{code}"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _append_synced(writer: Writer[binlog.Ref]) -> None:
    writer.append(b"new")
    writer.sync()


def _append_for_long(writer: Writer[binlog.Ref]) -> None:
    for _ in range(100_000):
        writer.append(b"2", mode=Mode.FLUSH)


@MODES
def test_after_a_rename_records_go_to_the_file_with_the_name(log: Path, mode: Mode) -> None:
    """After logrotate's `rename`, the open writer appended to a file that no reader reads."""
    _make(log)
    with Writer(log, mode=mode) as writer:
        writer.append(b"old")
        writer.sync()
        _elsewhere("os.rename(f'{log}/00000001.dat', f'{log}/00000001.dat.1')", log)
        for number in range(3):
            writer.append(b"%d" % number)
        writer.sync()
        assert read_all(log) == [b"0", b"1", b"2"]


@MODES
def test_a_rename_by_the_same_thread_is_seen_at_once(log: Path, mode: Mode) -> None:
    """Timestamps of a directory are coarse: two changes within a tick may have the same."""
    _make(log)
    with Writer(log, mode=mode) as writer:
        for number in range(50):
            writer.append(b"old")
            writer.sync()
            (log / "00000001.dat").rename(log / f"old-{number}")
            writer.append(b"%d" % number)
            writer.sync()
            assert read_all(log) == [b"%d" % number]


@MODES
@pytest.mark.parametrize(
    "replace",
    [
        "shutil.rmtree(log)",
        "os.rename(log, log + '2')",
        "os.rename(log, log + '2'); os.mkdir(log)",
        "shutil.rmtree(log); os.mkdir(log)",
        "os.rename(log, log + '2'); Writer(log).append(b'another log')",
    ],
)
def test_a_writer_whose_directory_was_removed_gets_an_error_that_names_it(log: Path, mode: Mode, replace: str) -> None:
    _make(log)
    writer = Writer(log, mode=mode)
    writer.append(b"old")
    writer.sync()
    _elsewhere(replace, log)
    with pytest.raises(GoneError, match=f"^{log}: "):
        _append_synced(writer)
    if log.exists():
        assert b"new" not in b"".join(path.read_bytes() for path in log.iterdir())
    with pytest.raises(GoneError) if mode is Mode.STAGE else pytest.MonkeyPatch.context():
        writer.close()


@pytest.mark.parametrize("replace", ["shutil.rmtree(log)", "os.rename(log, log + '2'); os.mkdir(log)"])
def test_a_writer_that_only_stages_gets_an_error_if_its_directory_was_removed(log: Path, replace: str) -> None:
    """The background thread met the error and hid it, and appends returned as long as the ring had room."""
    _make(log)
    writer = Writer(log, mode=Mode.STAGE)
    writer.append(b"old")
    writer.sync()
    _elsewhere(replace, log)
    deadline = time.monotonic() + 20
    with pytest.raises(GoneError, match=f"^{log}: "):
        _stage_until(writer, deadline)
    with pytest.raises(GoneError, match=f"^{log}: "):
        writer.close()


def _stage_until(writer: Writer[binlog.Ref], deadline: float) -> None:
    while time.monotonic() < deadline:
        writer.append(b"new")
        time.sleep(0.01)  # the ring has room for 20 s of records


def test_a_failure_at_the_end_of_the_interpreter_is_reported(log: Path) -> None:
    _make(log)
    code = "w = Writer(log, mode=Mode.STAGE); w.append(b'1'); w.sync(); w.append(b'2'); shutil.rmtree(log)"
    script = f"import sys, shutil\nfrom binlog import Mode, Writer\nlog = sys.argv[1]\n{code}"
    done = subprocess.run([sys.executable, "-c", script, str(log)], capture_output=True, text=True, check=True)
    assert f"may be lost with this process: {log}: the directory was removed" in done.stderr


def test_a_writer_gets_an_error_if_a_directory_above_its_own_was_replaced(log: Path) -> None:
    _make(log)
    with Writer(log) as writer:
        writer.append(b"old")
        _elsewhere("os.rename(os.path.dirname(log), os.path.dirname(log) + '2'); os.makedirs(log)", log)

        def refused() -> bool:
            try:
                writer.append(b"new")
            except GoneError as error:
                return str(log) in str(error)
            return False

        assert any(refused() for _ in range(100_000))


def test_a_writer_that_appends_rarely_gets_the_error_each_time(log: Path) -> None:
    """A check that failed was taken for one that had just succeeded, and the next appends were accepted."""
    _make(log)
    with Writer(log) as writer:
        for _ in range(3):
            writer.append(b"old")
            time.sleep(0.15)  # the time since the last check decides; there is nothing to wait for
        _elsewhere("os.rename(os.path.dirname(log), os.path.dirname(log) + '2'); os.makedirs(log)", log)
        time.sleep(0.15)
        for _ in range(3):
            with pytest.raises(GoneError):
                writer.append(b"new")


@pytest.mark.parametrize(
    "replace",
    [
        "shutil.rmtree(log)",
        "os.rename(log, log + '2'); os.mkdir(log)",
        "os.rename(log + '/00000001.dat', log + '/00000001.dat.1')",
        "os.unlink(log + '/00000001.dat')",
        "os.rename(log + '/00000001.dat', log + '/1'); Writer(log).append(b'another log')",
    ],
)
@pytest.mark.parametrize("wait", [Reader.wait, lambda reader, _: next(reader.tail(20.0))], ids=["wait", "tail"])
def test_a_follower_gets_an_error_if_its_file_or_directory_was_removed(
    log: Path, monkeypatch: pytest.MonkeyPatch, replace: str, wait: Callable[[Reader, float], object]
) -> None:
    """It waited forever, without an error."""
    monkeypatch.setattr(cursor, "_WAIT_SECONDS_MAX", 0.05)
    monkeypatch.setattr(cursor, "_CHECK_SECONDS", 0.0)
    _make(log)
    with Reader(log) as reader:
        assert [entry.data for entry in reader] == [b"before"]
        _elsewhere(replace, log)
        with pytest.raises(GoneError, match=f"^{log}"):
            wait(reader, 20.0)


def test_a_follower_of_a_directory_without_files_gets_an_error_if_it_was_removed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with Reader(tmp_path / "log") as reader:
        (tmp_path / "log").rmdir()
        with pytest.raises(GoneError, match="the directory was removed"):
            reader.wait(20.0)


def test_a_follower_continues_past_files_that_are_archived_and_pruned_meanwhile(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor, "_CHECK_SECONDS", 0.0)
    _make(log)
    with Reader(log) as reader, Writer(log) as writer:
        assert [entry.data for entry in reader] == [b"before"]
        for number in range(5):
            writer.cutover()
            writer.append(b"%d" % number)
            binlog.archive(log)
            assert reader.wait(20.0)
            assert [entry.data for entry in reader] == [b"%d" % number]


def test_a_log_may_be_given_by_a_relative_path(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon changes to the root directory after it opened its log."""
    _make(log)
    monkeypatch.chdir(log.parent)
    with Writer("log") as writer:
        monkeypatch.chdir("/")
        writer.append(b"1")
        writer.cutover()
        writer.append(b"2")
    assert read_all(log) == [b"before", b"1", b"2"]


@pytest.mark.root
def test_a_process_that_changed_its_root_continues_to_append(log: Path) -> None:
    _make(log)
    code = (
        "w = Writer(log); r = Reader(log); w.append(b'1'); os.chroot('/tmp'); os.chdir('/')\n"
        "for n in range(300): w.append(b'2')\n"
        "w.append(b'3', mode=Mode.FLUSH); print(len(list(r)), end='', flush=True); os._exit(0)"
    )
    assert _elsewhere(code, log) == "303"
    assert read_all(log)[-1] == b"3"


def test_a_log_is_appended_to_through_a_symbolic_link(log: Path) -> None:
    _make(log)
    link = log.parent / "current"
    link.symlink_to("log")
    with Writer(link) as writer:
        writer.append(b"1")
        (log.parent / "other").mkdir()
        link.unlink()
        link.symlink_to("other")
        with pytest.raises(BinlogError, match="current"):
            _append_for_long(writer)
    assert os.listdir(log.parent / "other") == []


def test_a_copy_made_by_shutil_is_not_a_moved_file(log: Path) -> None:
    _make(log)
    with Writer(log) as writer:
        shutil.copytree(log, log.parent / "copy")
        writer.append(b"1")
    assert read_all(log) == [b"before", b"1"]


def test_a_reader_gets_an_error_if_the_log_was_removed_during_a_cutover(log: Path) -> None:
    _make(log)
    with open(log / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), (2).to_bytes(4, "big"), LOG_HEADER.offset("next_number"))
    with Reader(log) as reader:
        list(reader)
        _elsewhere("os.rename(log, log + '2'); Writer(log).append(b'another log')", log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                assert list(reader) == []
            except GoneError:
                break
        with pytest.raises(GoneError):
            list(reader)

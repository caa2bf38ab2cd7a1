from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.commitlog.files.mapped_file import PAGE_BYTES, MappedFile
from binlog.errors import ClosedError, CorruptError, GoneError, PoisonedError, StateError
from tests.support.children import Child, run_script
from tests.support.stores import Buffer

_FILE_BYTES = 16 * PAGE_BYTES


@pytest.fixture
def file(tmp_path: Path) -> Iterator[MappedFile]:
    made = MappedFile(str(tmp_path), 3 * _FILE_BYTES, _FILE_BYTES)
    yield made
    made.shut_down()


def test_a_new_file_has_its_name_its_size_and_its_blocks(file: MappedFile, tmp_path: Path) -> None:
    (path,) = tmp_path.iterdir()
    assert path.name == f"{3 * _FILE_BYTES:020d}"
    assert path.stat().st_size == _FILE_BYTES
    assert path.stat().st_blocks * 512 >= _FILE_BYTES
    assert (file.wrote, file.committed, file.flushed, file.full) == (0, 0, 0, False)


def test_appended_bytes_are_visible_in_the_file_at_once(file: MappedFile, tmp_path: Path) -> None:
    assert file.append(b"first")
    assert file.append_many([b"second", b"third"])
    assert (file.wrote, file.committed, file.flushed) == (16, 16, 0)
    assert file.read(100, 5) == b"secondthird"
    (path,) = tmp_path.iterdir()
    seen = run_script("import sys; print(open(sys.argv[1], 'rb').read(20))", path)
    assert eval(seen.stdout) == b"firstsecondthird" + bytes(4)


def test_bytes_that_do_not_fit_are_not_appended(file: MappedFile) -> None:
    assert not file.append(bytes(_FILE_BYTES + 1))
    assert file.append(b"x" * (_FILE_BYTES - 1))
    assert not file.append(b"yz")
    assert file.wrote == _FILE_BYTES - 1
    assert file.append(b"y")
    assert file.full


def test_a_marker_fills_the_rest_of_the_file(file: MappedFile, tmp_path: Path) -> None:
    file.append(b"x" * (_FILE_BYTES - 100))
    assert file.fill(b"8 bytes.") == 100
    assert (file.wrote, file.full) == (_FILE_BYTES, True)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[-100:] == b"8 bytes." + bytes(92)
    assert not file.append(b"y")


def test_a_flush_is_due_after_enough_pages_or_for_a_full_file(file: MappedFile) -> None:
    assert not file.is_able_to_flush(0)
    file.append(b"x" * (2 * PAGE_BYTES - 1))
    assert [file.is_able_to_flush(pages) for pages in (0, 1, 2)] == [True, True, False]
    assert file.flush(2) == 0
    file.append(b"x")
    assert file.flush(2) == 2 * PAGE_BYTES == file.flushed
    file.append(b"x" * (_FILE_BYTES - file.wrote))
    assert file.flush(1000) == _FILE_BYTES
    assert file.is_able_to_flush(0)  # as in RocketMQ, although nothing is left to flush
    assert file.is_able_to_commit(1000)
    modified = file.modified
    assert file.flush(0) == file.commit(0) == _FILE_BYTES
    assert file.modified == modified


def test_a_commit_writes_the_buffer_to_the_file(tmp_path: Path) -> None:
    buffer = Buffer(_FILE_BYTES)
    file = MappedFile(str(tmp_path), 0, _FILE_BYTES, buffer=buffer)
    path = tmp_path / f"{0:020d}"
    file.append(b"staged")
    assert (file.wrote, file.committed) == (6, 0)
    assert (file.read(6, 0), path.read_bytes()[:6]) == (b"", bytes(6))
    assert file.flush() == 0  # nothing is committed yet
    assert file.commit(1) == 0
    assert file.commit() == 6
    assert (file.read(6, 0), path.read_bytes()[:6]) == (b"staged", b"staged")
    assert file.flush() == 6
    file.append(b"x" * (_FILE_BYTES - 6))
    assert not buffer.given_back
    assert file.commit(1000) == _FILE_BYTES
    assert buffer.given_back
    assert path.read_bytes() == b"staged" + b"x" * (_FILE_BYTES - 6)
    file.shut_down()


def test_a_removed_file_serves_open_readers_only(file: MappedFile, tmp_path: Path) -> None:
    file.append(b"data")
    in_use = file._file.open()
    file.remove()
    file.shut_down()
    assert os.pread(in_use.fd, 9, 0)[:4] == b"data"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(GoneError):
        file.read(4, 0)
    with pytest.raises(ClosedError):
        file.append(b"data")


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(bytes(100))
    with pytest.raises(CorruptError, match="100 bytes") as caught:
        MappedFile(str(tmp_path), 0, _FILE_BYTES)
    assert caught.value.rule == "file_bytes"


def test_an_empty_file_counts_as_new(tmp_path: Path) -> None:
    """A crash between creating and sizing the file leaves it empty."""
    (tmp_path / f"{0:020d}").touch()
    file = MappedFile(str(tmp_path), 0, _FILE_BYTES)
    assert file.append(b"data")
    file.shut_down()


def test_moving_the_end_erases_later_bytes(file: MappedFile, tmp_path: Path) -> None:
    file.append(b"x" * _FILE_BYTES)
    file.move(PAGE_BYTES + 10)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == b"x" * (PAGE_BYTES + 10) + bytes(_FILE_BYTES - PAGE_BYTES - 10)
    assert (file.wrote, file.committed, file.flushed) == (PAGE_BYTES + 10,) * 3
    file.append(b"y")
    assert path.read_bytes()[: PAGE_BYTES + 12] == b"x" * (PAGE_BYTES + 10) + b"y\0"


def test_a_warm_file_is_in_memory_and_zero(file: MappedFile, tmp_path: Path) -> None:
    file.append(b"data")
    file.warm_up()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    file.append(b"x" * (_FILE_BYTES - 4))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < _FILE_BYTES // PAGE_BYTES


def test_a_forked_child_cannot_write(file: MappedFile, tmp_path: Path) -> None:
    file.append(b"ours")

    def append() -> None:
        with pytest.raises(StateError):
            file.append(b"theirs")

    Child(append).join()
    file.append(b"!")
    (path,) = tmp_path.iterdir()
    assert path.read_bytes()[:8] == b"ours!\0\0\0"


def test_a_failed_flush_is_the_last_one_and_moves_no_position(file: MappedFile) -> None:
    """A second sync would succeed although the kernel has dropped the pages (fsync(2))."""
    file.append(b"data")
    os.dup2(os.open("/dev/null", os.O_WRONLY), file._file.open().fd)  # which cannot be synced: EINVAL
    with pytest.raises(PoisonedError):
        file.flush()
    assert file.flushed == 0
    for act in (file.flush, lambda: file.append(b"more")):
        with pytest.raises(PoisonedError):
            act()


@pytest.mark.parametrize("limit", [0, 5 * PAGE_BYTES])
@pytest.mark.slow
def test_a_full_disk_is_found_before_bytes_are_stored(limit: int, tmp_path: Path) -> None:
    """A limit on file sizes takes the place of a full disk: EFBIG instead of ENOSPC."""
    text = f"""
import os, resource, signal, sys
from binlog.commitlog.files.mapped_file import MappedFile
from binlog.errors import FullError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    MappedFile({str(tmp_path)!r}, 0, {_FILE_BYTES})
except FullError as error:
    print(error)
"""
    assert "File too large" in run_script(text).stdout
    assert list(tmp_path.iterdir()) == []


def test_a_sync_writes_dirty_pages_and_few_others(tmp_path: Path) -> None:
    file = MappedFile(str(tmp_path), 0, 8 << 20)
    file.append(b"with this one the pages ahead become due as well")
    file.flush()
    before = _written_bytes()
    for _ in range(32):
        file.append(bytes(PAGE_BYTES))
        file.flush()
    file.shut_down()
    # each spans two pages, because none starts at a page boundary
    assert _written_bytes() - before <= 32 * 64 * PAGE_BYTES


def _written_bytes() -> int:
    """Return the bytes that this process has dirtied, in whole pages, by proc_pid_io(5); 0 in a tmpfs."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["write_bytes"])

from __future__ import annotations

import itertools
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

import binlog
from binlog import FileSystem, Mode, Ref, Writer
from binlog.errors import AccessError, BusyError, ClosedError, FullError, StateError
from binlog.storage.directory import _REMOTE, Directory
from binlog.storage.native import lib
from tests.support.logs import all_raw_records, raw_records, read_all


def test_records_are_contiguous_from_offset_256(log: Path) -> None:
    with Writer(log) as writer:
        assert writer.append(b"hello") == Ref(1, 256)
        assert writer.append(b"") == Ref(1, 265)
        assert writer.append_many([b"a", bytearray(b"bc"), memoryview(b"def")]) == [
            Ref(1, 269),
            Ref(1, 274),
            Ref(1, 280),
        ]
    assert raw_records(log / "00000001.dat") == [b"hello", b"", b"a", b"bc", b"def"]


def test_append_many_of_no_records_appends_nothing(log: Path) -> None:
    with Writer(log) as writer:
        assert writer.append_many([]) == []
        assert writer.append_many(iter([b"x"])) == [Ref(1, 256)]
    assert read_all(log) == [b"x"]


def test_a_buffer_of_wider_items_is_stored_by_its_bytes(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(memoryview(bytes(8)).cast("I"))
    assert read_all(log) == [bytes(8)]


@pytest.mark.parametrize("record", ["text", 5, None, ["x"]])
def test_a_record_that_is_not_bytes_is_refused(log: Path, record: object) -> None:
    with Writer(log) as writer, pytest.raises(TypeError):
        writer.append(record)  # type: ignore[arg-type]
    assert read_all(log) == []


def test_a_record_over_the_limit_is_refused_and_the_writer_continues(log: Path) -> None:
    with Writer(log, record_bytes_max=10) as writer:
        writer.append(bytes(10))
        with pytest.raises(FullError) as caught:
            writer.append_many([b"one", bytes(11)])
        assert (caught.value.limit, caught.value.size) == (10, 11)
        writer.append(b"after")
    assert read_all(log) == [bytes(10), b"after"]


@pytest.mark.slow
def test_the_default_limit_is_64_mib(log: Path) -> None:
    with Writer(log) as writer:
        with pytest.raises(FullError):
            writer.append(bytes((64 << 20) + 1))
        writer.append(bytes(64 << 20))
    with binlog.Reader(log) as reader:
        assert len(next(reader).data) == 64 << 20


@pytest.mark.parametrize("options", [{"record_bytes_max": -1}, {"record_bytes_max": 2**31}, {"prepare_bytes": 10}])
def test_options_out_of_range_are_refused(log: Path, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Writer(log, **options)  # type: ignore[arg-type]


def test_a_closed_writer_refuses(log: Path) -> None:
    writer = Writer(log)
    writer.close()
    writer.close()
    for call in (lambda: writer.append(b"x"), lambda: writer.append_many([]), writer.cutover, writer.sync):
        with pytest.raises(ClosedError):
            call()


def test_a_later_writer_continues_at_the_end_of_the_first(log: Path) -> None:
    for index in range(3):
        with Writer(log) as writer:
            writer.append(b"%d" % index)
    assert read_all(log) == [b"0", b"1", b"2"]


def test_space_is_prepared_in_steps_that_grow_to_the_limit(log: Path) -> None:
    path = log / "00000001.dat"
    with Writer(log, prepare_bytes=4 << 20) as writer:
        assert path.stat().st_size == 1 << 20
        sizes = set()
        for _ in range(20):
            writer.append(bytes(1 << 20))
            sizes.add(path.stat().st_size)
    assert max(sizes) - path.stat().st_size == 0
    steps = sorted(sizes)
    assert max(b - a for a, b in itertools.pairwise(steps)) == 4 << 20


def test_files_have_the_directorys_group_and_0640(log: Path) -> None:
    before = os.umask(0)
    try:
        with Writer(log) as writer:
            writer.cutover()
    finally:
        os.umask(before)
    for path in log.iterdir():
        assert path.stat().st_mode & 0o7777 == 0o640
        assert path.stat().st_gid == log.stat().st_gid


def test_the_caller_may_set_the_files_permissions(log: Path) -> None:
    with Writer(log, permissions=0o604):
        assert (log / "00000001.dat").stat().st_mode & 0o7777 == 0o604


def test_a_directory_that_several_machines_may_share_is_refused(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Directory(str(log.parent)) as parent:
        monkeypatch.setitem(_REMOTE, lib.binlog_filesystem(parent.fd), "this one")
    with pytest.raises(AccessError, match="is on this one"):
        Writer(log)
    with Writer(log, file_system=FileSystem.ANY) as writer:
        writer.append(b"x")


def test_a_busy_lock_raises_an_error_that_names_the_holder(log: Path) -> None:
    with Writer(log) as writer, Writer(log, lock_timeout=0.02) as impatient:
        held = threading.Event()
        done = threading.Event()

        def hold() -> None:
            writer._open_session().run(lambda file, header: (held.set(), done.wait()))  # type: ignore[func-returns-value]

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        with pytest.raises(BusyError) as caught:
            impatient.append(b"x")
        assert caught.value.holder == f"process {os.getpid()}"
        done.set()
        thread.join()
        impatient.append(b"y")
    assert read_all(log) == [b"y"]


def test_a_call_from_a_signal_handler_within_a_call_is_refused_not_blocked(log: Path) -> None:
    errors: list[Exception] = []
    with Writer(log) as writer:

        def again(*_: object) -> None:
            try:
                writer.append(b"from the handler")
            except StateError as error:
                errors.append(error)

        before = signal.signal(signal.SIGUSR1, again)
        writer._open_session().run(lambda file, header: signal.raise_signal(signal.SIGUSR1))
        signal.signal(signal.SIGUSR1, before)
        writer.append(b"after")
    assert len(errors) == 1
    assert read_all(log) == [b"after"]


def test_a_limit_on_the_files_size_fails_the_append_and_nothing_else(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(bytes(1000))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, before[1]))
        try:
            refused = 0
            for _ in range(5):
                try:
                    writer.append(bytes(600_000))
                except FullError:
                    refused += 1
            assert refused == 2
            writer.append(b"a small one fits")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        writer.append(bytes(600_000))
    assert [len(record) for record in read_all(log)] == [1000, 600_000, 600_000, 600_000, 16, 600_000]


def test_zeros_are_written_after_small_synced_groups_and_over_nothing(log: Path) -> None:
    def written_to() -> int:
        """Return the start of the space never written, by lseek(2), which reports unwritten space as a hole."""
        with file.open("rb") as opened:
            return os.lseek(opened.fileno(), written_from, os.SEEK_HOLE)

    file = log / "00000001.dat"
    records = [b"%06d" % number * 100 for number in range(400)]
    with Writer(log) as writer:
        for record in records:
            ref = writer.append(record)
            if ref.offset // 65536 < (ref.offset + 604) // 65536:
                written_from = ref.offset
                boundary = (ref.offset + 604) // 65536 * 65536 + 65536
                assert written_to() >= boundary
        last = file.read_bytes()[ref.offset + 604 :]
    assert all_raw_records(log) == records
    assert not any(last)


def test_zeros_that_do_not_fit_fail_no_append(log: Path) -> None:
    with Writer(log) as other:
        other.append(b"prepares a mebibyte")
    with Writer(log) as writer:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, before[1]))
        try:
            refs = [writer.append(bytes(500)) for _ in range(200)]
            with pytest.raises(FullError):
                refs.extend(writer.append(bytes(500)) for _ in range(200))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert refs[-1].offset > (100 << 10) - 2 * 504
        writer.append(b"after")


def test_a_removed_open_file_is_left_for_the_one_with_its_name(log: Path) -> None:
    with Writer(log) as writer, Writer(log) as other:
        writer.append(b"lost by whoever removed it")
        (log / "00000001.dat").unlink()
        other.append(b"other")
        assert writer.append(b"writer") == Ref(1, 265)
    assert all_raw_records(log) == [b"other", b"writer"]


def test_an_append_asks_for_no_times(log: Path) -> None:
    def noted_a_time_of_its_own() -> bool:
        os.stat(file)  # a question makes the next write record a time, and the next sync must write the inode ...
        writer.append(b"notes one")
        before = time.time_ns()
        writer.append(b"and this one, unless an append asks, at the next tick only")
        return os.stat(file).st_mtime_ns > before

    file = log / "00000001.dat"
    with Writer(log, mode=Mode.FLUSH) as writer:
        writer.append(b"")
        assert not all(noted_a_time_of_its_own() for _ in range(100))


def test_threads_share_a_writer(log: Path) -> None:
    with Writer(log) as writer:

        def append(thread: int) -> None:
            for index in range(50):
                writer.append(b"%d %d" % (thread, index))

        threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    records = read_all(log)
    assert sorted(records) == sorted(b"%d %d" % (thread, index) for thread in range(8) for index in range(50))


def test_a_half_prepared_file_of_a_dead_process_is_removed(log: Path) -> None:
    log.mkdir()
    leftovers = [log / ".00000001.dat.0123456789abcdef.new", log / ".00000002.dat.0123456789abcdef.new"]
    for path in leftovers:
        path.write_bytes(b"half a file")
    with Writer(log) as writer:
        assert [path.exists() for path in leftovers] == [False, True]
        writer.cutover()
    assert sorted(path.name for path in log.glob("*.dat*")) == ["00000001.dat", "00000002.dat"]

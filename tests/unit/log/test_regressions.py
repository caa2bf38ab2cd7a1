"""Regressions: each test is named after the bug that it would show again."""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Reader, Ref, Writer
from binlog.errors import BinlogError, ClosedError, CorruptError, GoneError, PoisonedError, StateError
from binlog.format.log_header import LogHeader, parse_log_header
from binlog.log.append import writable_file
from binlog.log.files.prepared_file import PreparedFile
from binlog.storage.file_access import access_of_directory
from binlog.storage.waiting import bell_watcher
from stress.crash.preloaded.injector import Kind
from tests.support.children import Child
from tests.support.descriptors import count_descriptors, descriptors_before
from tests.support.logs import jpos_file, name_next_file_only, read_all
from tests.support.preloaded import calls_so_far, run_preloaded


def test_an_idle_writer_was_lost_when_closed_files_were_moved_away(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(log) as idle, Writer(log) as other, Reader(log) as reader:
        idle.append(b"1")
        assert [entry.data for entry in reader] == [b"1"]
        for record in (b"2", b"3"):
            other.cutover()
            other.append(record)
        for number in (1, 2):
            (log / f"{number:08d}.dat").rename(tmp_path / f"{number}")
        assert idle.append(b"4") == Ref(3, 261)
        with pytest.raises(GoneError):
            next(reader)


@pytest.mark.slow
def test_a_writer_went_on_in_a_file_whose_predecessors_close_was_not_synced(log: Path) -> None:
    """The process that closed it may have died between the status and its sync."""
    with Writer(log) as writer, Writer(log) as other:
        writer.append(b"1")
        other.cutover()
        # A sync by another process, with its own descriptor, would not report an earlier error.
        run = run_preloaded(_open_and_leave, log, kinds=(Kind.DATA_SYNC,), names_end="00000001.dat")
        assert run.calls, "opening the log did not sync the file before the newest"


def _open_and_leave(log: Path) -> None:
    with Writer(log):
        pass


@pytest.mark.slow
def test_moving_on_syncs_the_file_that_is_left(log: Path) -> None:
    """As above, for a writer that had the closed file open: it syncs before it opens the next."""
    run = run_preloaded(_sleep_and_append, log, kinds=(Kind.DATA_SYNC, Kind.OPEN), names_end=".dat")
    assert run.calls[run.result :][:2] == [Kind.DATA_SYNC, Kind.OPEN]


def _sleep_and_append(log: Path) -> int:
    """Return the number of calls it made before it woke."""
    with Writer(log) as sleeper:
        sleeper.append(b"1")
        Child(_cut_over, log).join()
        before = calls_so_far()
        sleeper.append(b"2")
        return before


def _cut_over(log: Path) -> None:
    with Writer(log) as writer:
        writer.cutover()


@pytest.mark.slow
def test_a_lock_was_freed_under_a_descriptors_number_that_was_another_files_by_then(log: Path) -> None:
    """The unlock must come before the close: another thread's file may get the number at once."""
    kinds = (Kind.LOCK, Kind.UNLOCK, Kind.CLOSE)
    calls = run_preloaded(_append_to_a_removed_file, log, kinds=kinds, names_end="00000001.dat (deleted)").calls
    locks = calls[: calls.index(Kind.CLOSE)]
    assert locks.pop() is Kind.UNLOCK  # part of closing, in case a forked child has a copy of the descriptor
    assert locks
    assert locks == [Kind.LOCK, Kind.UNLOCK] * (len(locks) // 2)


def _append_to_a_removed_file(log: Path) -> None:
    with Writer(log) as writer:
        (log / "00000001.dat").unlink()
        writer.append(b"1")


@pytest.mark.slow
def test_many_jpos_files_overran_the_stack_at_the_first_cutover(log: Path) -> None:
    log.mkdir()
    count = sys.getrecursionlimit() // 2
    for number in range(1, count):
        jpos_file(log, [b"x"], number=number, status=1, next_number=number + 1)
    jpos_file(log, [b"x"], number=count)
    with Writer(log) as writer:
        assert writer.cutover() == count + 1
    assert binlog.stat(log).files[-1].first_sequence == count


def test_writer_and_reader_took_one_path_for_two_directories(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "sub")
    path = f"{tmp_path}/link/../log"
    with Writer(path) as writer:
        writer.append(b"1")
    assert read_all(Path(path)) == [b"1"]
    assert (tmp_path / "real" / "log" / "00000001.dat").exists()


def test_a_forked_child_wrote_to_another_directory_after_a_rename(tmp_path: Path) -> None:
    with Writer(tmp_path / "log") as writer:
        writer.append(b"1")
        (tmp_path / "log").rename(tmp_path / "moved")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with pytest.raises(GoneError):
                    writer.append(b"2")
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read_all(tmp_path / "moved") == [b"1"]
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    "change",
    [lambda header: header._replace(record_count=2**64 - 1), lambda header: header._replace(first_sequence=2**64 - 1)],
)
def test_counts_that_cannot_be_gave_a_struct_error(tmp_path: Path, change: Callable[[LogHeader], LogHeader]) -> None:
    with Writer(tmp_path) as writer:
        writer.append(b"1")
    path = tmp_path / "00000001.dat"
    data = path.read_bytes()
    path.write_bytes(change(parse_log_header(data[:256], path="")).pack() + data[256:])
    for use in (Writer, Reader):
        with pytest.raises(CorruptError):
            use(tmp_path)


@pytest.mark.parametrize("limits", [{"records_max": 2**70}, {"bytes_max": 2**70}])
def test_a_limit_without_bound_gave_an_overflow_error(log: Path, limits: dict[str, int]) -> None:
    with Writer(log) as writer:
        writer.append_many([b"1", b"2"])
    assert list(Reader(log).read_batch(**limits)) == [b"1", b"2"]


@pytest.mark.slow
def test_a_second_import_of_the_compiled_part_hung_every_fork() -> None:
    script = "import importlib, os, binlog.storage.native as n; importlib.reload(n); p = os.fork(); p or os._exit(0)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert importlib.import_module("binlog.storage.native")


@pytest.mark.slow
def test_a_close_beside_an_append_of_another_thread_gave_a_bad_descriptor(log: Path) -> None:
    errors: list[BinlogError] = []
    for _ in range(20):
        writer = Writer(log)

        def append(writer: Writer = writer) -> None:
            try:
                while True:
                    writer.append(b"x")
            except BinlogError as error:
                errors.append(error)

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        writer.close()
        for thread in threads:
            thread.join()
    assert {type(error) for error in errors} == {ClosedError}


@pytest.mark.slow
def test_a_fork_between_opening_and_registering_left_the_child_a_descriptor(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
    stop = threading.Event()

    def open_and_close() -> None:
        while not stop.is_set():
            Writer(log).close()

    threads = [threading.Thread(target=open_and_close) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(150):
            child = os.fork()
            if child == 0:
                os._exit(_writable_descriptors(log))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _writable_descriptors(log: Path) -> int:
    """Count this process's descriptors of the log's files; garbage of other tests may hold some of other files."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            flags = int(Path(f"/proc/self/fdinfo/{name}").read_text().split("flags:")[1].split()[0], 8)
            path = os.readlink(f"/proc/self/fd/{name}")
            count += path == str(log / "00000001.dat") and flags & os.O_ACCMODE == os.O_RDWR
        except OSError:
            continue
    return count


def test_a_poisoned_writer_went_on_in_a_file_that_cannot_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jpos_file(tmp_path, [b"1"])

    def fail(*_: object) -> None:
        raise PoisonedError("a sync failed")

    with Writer(tmp_path) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(writable_file, "commit_foreign", fail)
            with pytest.raises(PoisonedError):
                writer.append(b"2")
        with pytest.raises(PoisonedError):
            writer.append(b"3")


async def _next(reader: Reader) -> bytes:
    async for entry in reader:
        return entry.data
    raise AssertionError("a reader that follows does not end")


async def _append_while_waiting(writer: Writer, log: Path) -> bytes:
    waiting = asyncio.create_task(_next(Reader(log, binlog.Start.END)))  # opened here, before the append
    await asyncio.sleep(0)
    await asyncio.to_thread(writer.append, b"1")
    return await asyncio.wait_for(waiting, 60)


def test_an_event_loop_that_closed_ended_the_waiting_of_all_others(log: Path) -> None:
    with Writer(log) as writer:

        async def give_up() -> None:
            await asyncio.wait_for(_next(Reader(log, binlog.Start.END)), 0.05)

        with pytest.raises(TimeoutError):
            asyncio.run(give_up())
        writer.append(b"wakes the wait whose loop is closed")
        assert asyncio.run(_append_while_waiting(writer, log)) == b"1"


def test_a_thread_that_could_not_start_ended_all_waiting(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: bell_watcher.BellWatcher) -> bool:
        return False

    monkeypatch.setattr(bell_watcher.BellWatcher, "_start_thread", refuse)
    with Writer(log) as writer:
        assert asyncio.run(_append_while_waiting(writer, log)) == b"1"


def test_a_backlog_kept_the_event_loop_to_itself(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"x"] * 20_000)
    turns = 0

    async def main() -> int:
        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        found = 0
        async for _ in Reader(log):
            found += 1
            if found == 20_000:
                break
        counting.cancel()
        return found

    assert asyncio.run(main()) == 20_000
    assert turns >= 50


@pytest.mark.slow
def test_children_that_listed_the_directory_together_took_it_for_empty(log: Path) -> None:
    """The children shared the position of their parent's descriptor, and one made a first file in an existing log."""
    with Writer(log) as writer:
        for _ in range(28):
            writer.append(b"x")
            writer.cutover()
        for number in range(1, 20):
            (log / f"{number:08d}.dat").unlink()
        children = []
        for _ in range(6):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    for _ in range(20):
                        writer.append(b"child")
                        assert writer._open_session().directory.numbers()[0] == 20
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 6
    assert not (log / "00000001.dat").exists()
    assert [record for record in read_all(log) if record == b"child"] == [b"child"] * 120


_INTERRUPTED = """
import signal, sys
import binlog

class Interrupt(Exception):
    pass

def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise Interrupt

armed = finished = False
found, interrupts = [], 0
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0015)
reader = binlog.Reader(sys.argv[1])
while not finished:
    try:
        armed = True
        for entry in reader:
            found.append(int(entry.data))
        finished = True
        armed = False
    except Interrupt:
        interrupts += 1
        if interrupts == 100:  # for good, or a slow machine would never get through a batch
            signal.setitimer(signal.ITIMER_REAL, 0)
signal.setitimer(signal.ITIMER_REAL, 0)
assert found == sorted(set(found))
print(interrupts, len(found))
"""


@pytest.mark.slow
def test_an_interrupt_between_reading_and_giving_lost_what_was_read(log: Path) -> None:
    count = 30_000
    with Writer(log) as writer:
        writer.append_many([b"%d" % index for index in range(count)])
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, log], capture_output=True, text=True, check=True, timeout=120
    )
    interrupts, found = map(int, done.stdout.split())
    assert interrupts > 0
    # Each signal may lose the one record that was on its way to the loop, and no more.
    assert count - interrupts <= found <= count


def test_a_reader_at_the_end_waited_in_a_file_that_a_dead_cutover_had_only_named(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"1")
        name_next_file_only(log, tmp_path / "other")
        assert binlog.stat(log).tail == Ref(1, 261)
        with Reader(log, binlog.Start.END) as reader:
            writer.append(b"2")
            assert reader.wait(60)
            assert next(reader).data == b"2"


def test_leaving_a_loop_over_tail_closed_the_reader(log: Path) -> None:
    """`yield from` closes the object that it delegates to, if that can be closed."""
    with Writer(log) as writer, Reader(log) as reader:
        writer.append_many([b"1", b"2", b"3"])
        for entry in reader.tail(0):
            assert entry.data == b"1"
            break
        assert next(reader.tail(0)).data == b"2"
        assert next(reader).data == b"3"


def test_a_status_flipped_back_to_open_hid_every_later_file(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append(b"1")
        writer.cutover()
        writer.append(b"2")
    with open(tmp_path / "00000001.dat", "r+b") as file:
        file.seek(7)
        file.write(b"\0")
    assert [entry.data for entry in Reader(tmp_path)] == [b"1", b"2"]
    assert [problem.rule for problem in binlog.check(tmp_path)] == ["status"]


def test_a_second_writer_in_a_signal_handler_hung_for_ever(log: Path) -> None:
    refused: list[StateError] = []
    with Writer(log) as writer, Writer(log) as other:

        def append(*_: object) -> None:
            try:
                other.append(b"from the handler")
            except StateError as error:
                refused.append(error)

        before = signal.signal(signal.SIGUSR1, append)
        writer._open_session().run(lambda file, header: signal.raise_signal(signal.SIGUSR1))
        signal.signal(signal.SIGUSR1, before)
        other.append(b"after")
    assert len(refused) == 1
    assert read_all(log) == [b"after"]


@pytest.mark.slow
def test_a_prepared_file_that_was_dropped_stayed(log: Path) -> None:
    with Writer(log) as writer:
        directory = writer._open_session().directory
        count = descriptors_before()
        PreparedFile(directory, 2, file_bytes=4096, access=access_of_directory(directory.fd))
        gc.collect()
        assert [path.name for path in log.iterdir() if ".dat" in path.name] == ["00000001.dat"]
        assert count_descriptors() == count
        kept = PreparedFile(directory, 2, file_bytes=4096, access=access_of_directory(directory.fd))
        child = os.fork()
        if child == 0:
            kept.discard()
            os._exit(0)
        os.waitpid(child, 0)
        assert len(list(log.glob(".*.new"))) == 1, "a forked child removed its parent's prepared file"
        kept.discard()


def test_a_flipped_bit_in_the_next_number_left_out_a_file_in_silence(tmp_path: Path) -> None:
    log = tmp_path / "damaged"
    with Writer(log) as writer:
        for number in (1, 2, 3):
            writer.append(b"in %d" % number)
            if number < 3:
                writer.cutover()
    with (log / "00000001.dat").open("r+b") as file:
        file.seek(20)
        file.write((3).to_bytes(4, "big"))
    assert [entry.data for entry in Reader(log)] == [b"in 1", b"in 2", b"in 3"]
    assert [problem.rule for problem in binlog.check(log)] == ["next-number"]


def test_a_reader_showed_bytes_that_a_power_cut_had_spoilt(tmp_path: Path) -> None:
    """Some of the flushed, unsynced bytes are missing, and another boot wrote the header last."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append(b"synced")
        writer.append(b"x" * 1000, mode=binlog.Mode.FLUSH)
        path = log / "00000001.dat"
        data = bytearray(path.read_bytes()[:1500])
    header = parse_log_header(bytes(data[:256]), path=str(path))._replace(boot_id=bytes(16))
    data[:256] = header.pack()
    data[512:1024] = bytes(512)
    path.write_bytes(data)
    with Reader(log) as reader:
        assert [entry.data for entry in reader] == [b"synced"]
        assert [entry.data for entry in reader] == []
        assert not reader.wait(0)
    Writer(log).close()
    assert [entry.data for entry in Reader(log)] == [b"synced"]
    assert binlog.check(log) == []

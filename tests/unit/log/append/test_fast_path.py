"""The fast path: which appends take it, and that no append is lost or leaves anything set."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog import Background, Mode, Ref, Writer
from binlog.errors import ClosedError, FullError, PoisonedError, StateError
from binlog.storage.commit_file import RECORD_BYTES_COPIED
from binlog.storage.native import FastPath
from tests.support.children import Child
from tests.support.logs import job, jobs_by_writer, read_all

_NEVER = Background(flush_seconds=600, sync_seconds=600)
_REFS = [mode for mode in Mode if mode is not Mode.STAGE]


class Watched(Writer):
    """Counts the appends that C left to Python."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, background=_NEVER, **options)
        self.slow = 0
        self.slow_threads = set[int]()

    def _append_slowly(self, *values: Any, **named: Any) -> Any:
        thread = threading.get_ident()
        outermost = thread not in self.slow_threads
        self.slow += 1
        self.slow_threads.add(thread)
        try:
            return super()._append_slowly(*values, **named)
        finally:
            if outermost:
                self.slow_threads.discard(thread)


@contextmanager
def _warm(log: Path, **options: Any) -> Iterator[Watched]:
    """Return a writer after a record `first`; its background thread has ended, so it never takes the mutex."""
    with Watched(log, **options) as writer:
        writer.append(b"first", mode=Mode.FLUSH)
        writer._background.stop()
        writer.slow = 0
        yield writer


@contextmanager
def _locked_by_a_child(log: Path, *, signals: int = 0) -> Iterator[Callable[[], None]]:
    """Let another process lock the open file until the yielded function is called; it sends `signals` meanwhile."""
    ready_read, ready_write = os.pipe()
    release_read, release_write = os.pipe()
    parent = os.getpid()

    def hold() -> None:
        os.close(release_write)

        def wait(*_: object) -> None:
            os.write(ready_write, b"!")
            while not select.select([release_read], [], [], 0.02 if signals else None)[0]:
                os.kill(parent, signals)

        with Writer(log) as writer:
            writer._open_session().run(wait)

    child = Child(hold)
    assert os.read(ready_read, 1) == b"!"
    try:
        yield lambda: os.write(release_write, b"!") and None
    finally:
        os.close(release_write)
        child.join()
        for fd in (ready_read, ready_write, release_read):
            os.close(fd)


@contextmanager
def _handling(number: int, handler: Callable[..., object]) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("options", [{}, {"strict": True}, {"cutover_bytes": 1 << 30}, {"lock_timeout": 5.0}], ids=str)
def test_the_common_case_is_not_pythons(log: Path, options: dict[str, Any]) -> None:
    with _warm(log, **options) as writer:
        for mode in _REFS:
            at = writer.append(b"x", mode=mode)
            assert type(at) is Ref
            assert writer.append(b"", mode=mode) == Ref(1, at.offset + 5)
            assert hash(at) == hash(Ref(1, at.offset))
        assert writer.append(b"staged", mode=Mode.STAGE) is None
        assert writer.append(b"usual").offset == writer.append(b"last", mode=None).offset - 9
        assert writer.slow == 0
        assert read_all(log) == [b"first", b"x", b"", b"x", b"", b"staged", b"usual", b"last"]


def test_a_record_that_finds_the_ring_full_goes_to_the_file_and_returns_no_ref(log: Path) -> None:
    count = 2000
    with _warm(log, mode=Mode.STAGE) as writer:
        assert {writer.append(job(0, number, 500)) for number in range(count)} == {None}
        assert writer.slow == 0
        assert 0 < len(read_all(log)) - 1 < count
    assert jobs_by_writer(read_all(log)[1:]) == {0: list(range(count))}


class Text(bytes):
    """Bytes with a different `__str__`."""

    def __len__(self) -> int:
        return 1

    def __bytes__(self) -> bytes:
        return b"other"


@pytest.mark.parametrize("mode", list(Mode))
def test_a_buffer_is_converted_to_bytes_first(log: Path, mode: Mode) -> None:
    with _warm(log) as writer:
        for record in (bytearray(b"array"), memoryview(b"a view")[2:], Text(b"of a subclass")):
            place = writer.append(record, mode=mode)
            assert (place is None) == (mode is Mode.STAGE)
        assert writer.slow == 0
        for wrong in ("text", 5, None, [b"x"], object()):
            with pytest.raises(TypeError):
                writer.append(wrong, mode=mode)
        writer.append(b"last", mode=mode)
    assert read_all(log) == [b"first", b"array", b"view", b"of a subclass", b"last"]


@pytest.mark.parametrize("mode", list(Mode))
def test_sizes_around_what_is_copied_and_what_is_allowed(log: Path, mode: Mode) -> None:
    sizes = [0, 1, RECORD_BYTES_COPIED - 1, RECORD_BYTES_COPIED, RECORD_BYTES_COPIED + 1, 100_000]
    with _warm(log, record_bytes_max=100_000) as writer:
        for size in sizes:
            writer.append(b"x" * size, mode=mode)
        assert writer.slow == 2
        with pytest.raises(FullError, match="100001 bytes"):
            writer.append(bytes(100_001), mode=mode)
    assert [len(record) for record in read_all(log)] == [5, *sizes]
    with _warm(log, record_bytes_max=10) as writer:
        writer.append(bytes(10), mode=mode)
        with pytest.raises(FullError, match="11 bytes"):
            writer.append(bytes(11), mode=mode)
        assert writer.slow == 1


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        ((b"x", b"y"), {}),
        ((b"x", Mode.SYNC), {}),
        ((b"x",), {"record": b"y"}),
        ((b"x",), {"data": b"y"}),
        ((b"x",), {"mode": Mode.SYNC, "data": b"y"}),
        ((), {"mode": Mode.SYNC}),
    ],
    ids=str,
)
def test_a_mistaken_call_is_refused_by_its_public_name(log: Path, values: tuple[Any, ...], named: Any) -> None:
    with _warm(log) as writer, pytest.raises(TypeError, match=r"Writer\.append\(\)"):
        writer.append(*values, **named)
    assert read_all(log) == [b"first"]


def test_the_record_may_be_a_keyword_and_an_unknown_mode_is_refused(log: Path) -> None:
    with _warm(log) as writer:
        assert writer.append(record=b"1") == Ref(1, 265)
        assert writer.append(mode=Mode.FLUSH, record=b"2") == Ref(1, 270)
        assert writer.append(b"3", mode="SYNC") == Ref(1, 275)
        assert binlog.stat(log).files[0].durable_end == 280
        for wrong in (0, int(Mode.SYNC), -1, 2**70, "synced", 1.5, object()):
            with pytest.raises(ValueError if isinstance(wrong, str) else TypeError, match="Mode"):
                writer.append(b"4", mode=wrong)
    assert read_all(log) == [b"first", b"1", b"2", b"3"]


def test_a_handler_that_runs_while_an_append_waits_is_refused_not_blocked(log: Path) -> None:
    refused: list[StateError] = []
    with _warm(log) as writer, _locked_by_a_child(log, signals=signal.SIGUSR1) as release:

        def again(*_: object) -> None:
            if writer._session.fast_path.owner and not refused:
                with pytest.raises(StateError) as caught:
                    writer.append(b"from the handler")
                refused.append(caught.value)
                assert writer.append(b"staged by the handler", mode=Mode.STAGE) is None
                release()

        with _handling(signal.SIGUSR1, again):
            writer.append(b"waited")
            while not refused:  # a signal came before the wait, and none during it
                writer.append(b"waited")
        assert not writer._session.fast_path.owner
        writer.slow = 0
        writer.append(b"after")
        assert writer.slow == 0
    found = read_all(log)
    assert b"from the handler" not in found
    assert sorted(found) == sorted([b"first", b"waited", b"staged by the handler", b"after"])


@pytest.mark.parametrize("by_python", [False, True])
def test_ctrl_c_while_an_append_waits_withdraws_the_record_and_frees_its_ring_space(
    log: Path, *, by_python: bool
) -> None:
    """The append waits in C until the first signal, and then in a call that Python makes."""
    with _warm(log) as writer:
        interrupts = waiting = 0

        def interrupt(*_: object) -> None:
            nonlocal interrupts
            if waiting and bool(writer._session.fast_path.owner) is by_python:
                interrupts += 1
                raise KeyboardInterrupt

        with _handling(signal.SIGUSR1, interrupt), _locked_by_a_child(log, signals=signal.SIGUSR1):
            waiting = 1
            with pytest.raises(KeyboardInterrupt):
                writer.append(b"interrupted")
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        assert interrupts == 1
        assert not writer._session.fast_path.owner
        writer.append(b"after")
        for _ in range(3):  # three times the size of the ring
            for _ in range(250):
                writer.append(bytes(900), mode=Mode.STAGE)
            writer._session.drain(confirm=False)
        writer.append(b"staged", mode=Mode.STAGE)
        found = read_all(log)
        assert b"staged" not in found
        assert b"interrupted" not in found
        assert len(found) == 2 + 750


@pytest.mark.parametrize("mode", list(Mode))
def test_a_finalizer_that_runs_while_a_ref_is_made_may_append_too(log: Path, mode: Mode) -> None:
    """Making a tuple may collect garbage, which may run any code.

    An append may also go by Python, if another thread of the test run collects the garbage.  A finalizer that runs in
    the middle of it is refused, as every call within a call.
    """
    ran = refused = 0
    errors: list[str] = []

    class Meddler:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            nonlocal ran, refused
            ran += 1
            within_a_call = threading.get_ident() in writer.slow_threads
            try:
                writer.append(b"finalizer", mode=mode)
            except StateError as error:
                refused += 1
                if not within_a_call:
                    errors.append(f"{threading.current_thread().name}: {error!r}")
            except Exception as error:  # noqa: BLE001 - nobody else would hear of it
                errors.append(f"{threading.current_thread().name}: {error!r}")

    before = gc.get_threshold()
    with _warm(log) as writer:
        gc.set_threshold(1)
        try:
            for _ in range(200):
                Meddler()
                writer.append(b"main", mode=mode)
        finally:
            gc.set_threshold(*before)
        until = time.monotonic() + 60
        while ran < 200 and time.monotonic() < until:
            gc.collect()  # does nothing while another thread of the process is in a call
    assert errors == []
    assert ran == 200
    assert refused < 200
    found = read_all(log)
    assert (found.count(b"main"), found.count(b"finalizer"), len(found)) == (200, 200 - refused, 401 - refused)


def test_concurrent_threads_keep_their_order_and_lose_nothing(log: Path) -> None:
    with _warm(log) as writer:

        def work(number: int) -> None:
            last = Ref(1, 0)
            for count in range(500):
                at = writer.append(job(number, count), mode=_REFS[count % 50 == 0])
                assert last < at
                last = at

        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert writer.slow < 1500
    assert jobs_by_writer(read_all(log)[1:]) == {number: list(range(500)) for number in range(3)}


@pytest.mark.slow
def test_a_fork_during_another_threads_append_leaves_the_child_unlocked(log: Path) -> None:
    """The child inherits a locked mutex; the thread that holds it does not exist in the child."""
    with _warm(log) as writer:
        with _locked_by_a_child(log) as release:
            thread = threading.Thread(target=writer.append, args=(b"thread",))
            thread.start()
            while not writer._session.fast_path.owner:
                os.sched_yield()

            def work() -> None:
                for mode in Mode:
                    writer.append(b"child", mode=mode)
                writer.sync()

            child = Child(work)
            release()
            thread.join()
            child.join()
        writer.slow = 0
        writer.append(b"parent")
        assert writer.slow == 0
    assert sorted(read_all(log)) == [b"child"] * 3 + [b"first", b"parent", b"thread"]


@pytest.mark.parametrize("mode", list(Mode))
def test_closing_while_others_append_keeps_what_was_acknowledged_and_refuses_the_rest(log: Path, mode: Mode) -> None:
    started = threading.Barrier(3)
    done = [0, 0]
    refused: list[ClosedError] = []
    writer = Watched(log)

    def work(number: int) -> None:
        started.wait()
        try:
            while True:
                writer.append(job(number, done[number]), mode=mode)
                done[number] += 1
        except ClosedError as error:
            refused.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    while min(done) < 50:
        os.sched_yield()
    writer.close()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    for mode in Mode:
        with pytest.raises(ClosedError):
            writer.append(b"x", mode=mode)
    assert jobs_by_writer(read_all(log)) == {number: list(range(done[number])) for number in range(2)}


def test_a_failed_file_is_refused_from_then_on_in_every_mode(log: Path) -> None:
    with _warm(log) as writer:
        writer._session.area.fail(1, 5)
        for mode in [*_REFS, Mode.STAGE]:
            with pytest.raises(PoisonedError):
                writer.append(b"x", mode=mode)
        assert writer.slow == 3
        assert writer._session.fast_path.owner == 0
    assert read_all(log) == [b"first"]


def test_the_append_that_reaches_a_limit_cuts_over(log: Path) -> None:
    with _warm(log, cutover_bytes=1000) as writer:
        refs = [writer.append(bytes(96)) for _ in range(40)]
        assert writer.slow < 10
    assert {ref.number for ref in refs} == {1, 2, 3, 4, 5}
    # The first file holds one record of 9 bytes more, and closes with the first record that ends at 1,000 or later.
    assert [ref.offset for ref in refs if ref.number == 1] == list(range(265, 1000, 100))
    assert [ref.offset for ref in refs if ref.number == 2] == list(range(256, 1000, 100))


@pytest.mark.slow
def test_an_append_keeps_no_reference_to_its_record(log: Path) -> None:
    record, array = b"x" * 100, bytearray(b"y")
    with _warm(log) as writer:

        def go(times: int) -> None:
            for _ in range(times):
                writer.append(record, mode=Mode.STAGE)
            for _ in range(times // 10):
                writer.append(record, mode=Mode.FLUSH)
                writer.append(record)
                writer.append(array)
                with pytest.raises(TypeError):
                    writer.append(5, mode=Mode.STAGE)

        def counts() -> list[int]:
            gc.collect()
            kept = (record, array, Ref, *Mode, Mode, Watched, writer, writer._session, writer._session.area)
            return list(map(sys.getrefcount, kept))

        go(1000)
        before, blocks = counts(), sys.getallocatedblocks()
        for _ in range(100_000):
            writer.append(record, mode=Mode.STAGE)
        go(1000)
        assert counts() == before
        assert sys.getallocatedblocks() - blocks < 1000


def test_a_dropped_writer_is_freed_at_once_with_its_session(log: Path) -> None:
    writer = Watched(log)
    writer.append(b"1")
    gone = [weakref.ref(writer), weakref.ref(writer._session), weakref.ref(writer._session.area)]
    gc.disable()
    try:
        del writer
        assert [look() for look in gone] == [None, None, None]
    finally:
        gc.enable()


def test_a_writer_in_a_cycle_is_collected(log: Path) -> None:
    writer = Watched(log)
    writer.append(b"1")
    writer._session.itself = writer.itself = writer
    gone = weakref.ref(writer)
    del writer
    gc.collect()
    assert gone() is None


def test_wrong_arguments_of_a_fast_path_are_refused() -> None:
    mutex = threading.RLock()
    wrong = [(), (mutex,), (mutex, Ref, Mode.SYNC), (5, Ref, Mode.SYNC, 1), (mutex, int, Mode.SYNC, 1)]
    wrong += [(mutex, Ref, mode, 1) for mode in (0, max(Mode) + 1, 2**70, "1")]
    for values in wrong:
        with pytest.raises((TypeError, AttributeError, OverflowError)):
            FastPath(*values)
    made = FastPath(mutex, Ref, Mode.SYNC, 10)
    with pytest.raises(TypeError, match="once"):
        made.__init__(mutex, Ref, Mode.SYNC, 10)
    assert made.append(b"x", None) is made.append("text", None) is made.append(b"x", 1) is made.append(b"x") is False

"""Closing a reader while it is in use: by another thread, by a signal handler, in asyncio."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Reader, Start, Writer
from binlog.errors import ClosedError
from tests.support.children import Child
from tests.support.waiting import until


class _Thread(threading.Thread):
    """A thread that keeps what its work returns or raises."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self._work = work
        self.result: object = None

    def run(self) -> None:
        try:
            self.result = self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
            self.result = error

    def ended(self) -> object:
        """Return its result, after it has ended."""
        self.join(30)
        assert not self.is_alive()
        return self.result


def _until_waiting(reader: Reader) -> None:
    until(lambda: reader._guard.held)


def test_another_thread_ends_a_tail_by_closing_its_reader(log: Path) -> None:
    with Writer(log) as writer:
        writer.append(b"x")
        reader = Reader(log)
        thread = _Thread(lambda: [entry.data for entry in reader.tail()])
        thread.start()
        _until_waiting(reader)
        reader.close()
        assert thread.ended() == [b"x"]
        with pytest.raises(ClosedError):
            next(reader.tail())


def test_another_thread_ends_a_wait_by_closing_its_reader(log: Path) -> None:
    Writer(log).close()
    reader = Reader(log, Start.END)
    thread = _Thread(reader.wait)
    thread.start()
    _until_waiting(reader)
    reader.close()
    assert isinstance(thread.ended(), ClosedError)


def test_a_reader_of_a_directory_without_a_log_is_closed_while_it_waits(log: Path) -> None:
    log.mkdir()
    reader = Reader(log)
    thread = _Thread(lambda: list(reader.tail()))
    thread.start()
    _until_waiting(reader)
    reader.close()
    assert thread.ended() == []


@pytest.mark.slow
def test_closing_during_a_read_is_not_damage(log: Path) -> None:
    """The descriptor was closed while a thread read: CorruptError, or bytes of the next file with its number."""
    with Writer(log) as writer:
        for round_ in range(100):
            writer.append_many([b"x" * 1000] * 20)
            reader = Reader(log)
            thread = _Thread(lambda reader=reader: sum(1 for _ in reader.tail()))  # type: ignore[misc]
            thread.start()
            if round_ % 2:
                writer.append(b"y")
            reader.close()
            assert isinstance(thread.ended(), int | ClosedError)


def test_a_signal_handler_ends_a_tail_by_closing_its_reader(log: Path) -> None:
    Writer(log).close()
    reader = Reader(log)
    before = signal.signal(signal.SIGALRM, lambda number, frame: reader.close())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        assert list(reader.tail()) == []
    finally:
        signal.signal(signal.SIGALRM, before)
    assert reader._cursor.directory.fd == -1


def test_closing_ends_asynchronous_iteration(log: Path) -> None:
    async def follow() -> list[bytes]:
        reader = Reader(log)
        asyncio.get_running_loop().call_later(0.05, reader.close)
        return [entry.data async for entry in reader]

    with Writer(log) as writer:
        writer.append(b"x")
        # Sooner than it would check without it, after five seconds.
        assert asyncio.run(asyncio.wait_for(follow(), 4)) == [b"x"]


def test_a_child_forked_while_another_thread_waits_continues_to_read(log: Path) -> None:
    with Writer(log) as writer:
        reader = Reader(log)
        thread = _Thread(lambda: next(reader.tail()).data)
        thread.start()
        _until_waiting(reader)

        def read_on() -> None:
            assert reader.wait(30)
            assert [entry.data for entry in reader] == [b"x"]
            reader.close()

        child = Child(read_on)
        writer.append(b"x")
        child.join()
        assert thread.ended() == b"x"
        reader.close()

"""Ctrl-C at each place of a reader's calls: other threads can still use the reader, and close it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from binlog import Reader, Writer
from binlog.errors import ClosedError
from tests.support.interruptions import Interruption, at_each_place

# Python prints and drops an exception that is raised within a finalizer.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

_SECONDS_MAX = 20


def _set_follow(reader: Reader) -> None:
    reader.follow = True


_CALLS: dict[str, Callable[[Reader], object]] = {
    "next": next,
    "read_batch": Reader.read_batch,
    "wait": lambda reader: reader.wait(0),
    "bell_to_wait_on": Reader.bell_to_wait_on,
    "follow": _set_follow,
    "next_ref": lambda reader: reader.next_ref,
    "lag": Reader.lag,
    "close": Reader.close,
}


@pytest.fixture(autouse=True)
def _no_garbage() -> Iterator[None]:
    """Collect the garbage of interrupted calls within the test, because its mark ignores errors of finalizers."""
    yield
    gc.collect()


@pytest.mark.parametrize("name", _CALLS)
def test_another_thread_can_use_and_close_the_reader_after_an_interruption(log: Path, name: str) -> None:
    with Writer(log) as writer:
        writer.append_many([b"x", b"y"])

    def interrupt(at: int) -> bool | None:
        reader = Reader(log)
        interruption = Interruption(at)
        interruption.run(lambda: _CALLS[name](reader))
        if not interruption.raised:
            reader.close()
            return None
        thread = threading.Thread(target=_use_and_close, args=(reader,), daemon=True)
        thread.start()
        thread.join(_SECONDS_MAX)
        assert not thread.is_alive(), f"another thread waits for a lock after an interruption at place {at}"
        assert reader._cursor.directory.fd == -1
        return True

    assert at_each_place(interrupt)[0] > 0


def _use_and_close(reader: Reader) -> None:
    with suppress(ClosedError):  # the interrupted call was `close`
        reader.read_batch()
    reader.close()

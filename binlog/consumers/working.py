"""The loop of a worker: takes items, calls a handler, and ends cleanly at SIGTERM.

Python calls the handler of a signal in the main thread, between two of its steps.  If a signal comes just before the
main thread sleeps, or if the kernel gives it to another thread, it does not end the sleep.  So a thread reads the
signals (signal.set_wakeup_fd), and wakes the main thread.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from binlog.consumers.item import text_of
from binlog.errors import LeaseLostError

if TYPE_CHECKING:
    from binlog.consumers.item import Item
    from binlog.consumers.open_group import OpenGroup

_logger = logging.getLogger("binlog")


class WorkLoop:
    """Calls a handler for each item, in some threads, until `stop` or SIGTERM."""

    def __init__(self, opened: OpenGroup, handler: Callable[[Item], object], prefetch: int) -> None:
        self._opened, self._handler, self._prefetch = opened, handler, prefetch
        self._is_stopped = False
        self._noticed: queue.SimpleQueue[None] = queue.SimpleQueue()  # a signal handler may put into it
        self._mutex = threading.Lock()
        self._handled = 0
        self._failure: BaseException | None = None

    def run(self, threads: int) -> int:
        """Work until `stop`, and return how many items were acknowledged."""
        with self._stopping_at_sigterm():
            if threads == 1:
                self._take_items()
            else:
                self._run_threads(threads)
        if self._failure is not None:
            raise self._failure
        return self._handled

    def stop(self) -> None:
        """Let each thread end after its item.  A signal handler may call it."""
        self._is_stopped = True
        self._wake()

    def _wake(self) -> None:
        """Let all threads check whether they are to end."""
        self._opened.wake()
        self._noticed.put(None)

    def _run_threads(self, count: int) -> None:
        threads = [threading.Thread(target=self._take_items_in_thread, name="binlog-worker") for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            while not self._is_stopped:
                self._noticed.get()
        finally:
            self.stop()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _take_items_in_thread(self) -> None:
        try:
            self._take_items()
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._failure = error
        finally:
            self.stop()

    def _take_items(self) -> None:
        with self._opened.taking(self._prefetch):
            while not self._is_stopped:
                item = self._opened.take(1 + self._prefetch, None, lambda: not self._is_stopped)
                if item is not None:
                    self._handle(item)

    def _handle(self, item: Item) -> None:
        try:
            self._handler(item)
        except Exception as error:
            _logger.exception("message %d, delivery %d: the handler failed", item.sequence, item.delivery)
            text = text_of(error)
            self._end(item, lambda: item.nack(error=text))
        except BaseException:
            self._end(item, item.back)
            raise
        else:
            if self._end(item, item.ack):
                with self._mutex:
                    self._handled += 1

    def _end(self, item: Item, end: Callable[[], None]) -> bool:
        """End an item, unless the handler has; return whether that counted."""
        if item.is_ended:
            return False
        try:
            end()
        except LeaseLostError as error:
            _logger.warning("%s", error)
            return False
        return True

    @contextmanager
    def _stopping_at_sigterm(self) -> Iterator[None]:
        """Stop at SIGTERM, if this is the main thread; Python lets no other one set a signal handler."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(_: int, __: FrameType | None) -> None:
            self.stop()

        before = signal.signal(signal.SIGTERM, handle)
        try:
            with _called_after_signals(self._wake):
                yield
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def _called_after_signals(call: Callable[[], None]) -> Iterator[None]:
    """In a block, call a function in another thread after each signal of the process."""
    signals_fd, wake_fd = os.pipe2(os.O_CLOEXEC)
    is_ended = False

    def listen() -> None:
        while os.read(signals_fd, 1) and not is_ended:
            call()

    thread = threading.Thread(target=listen, name="binlog-signals", daemon=True)
    thread.start()
    os.set_blocking(wake_fd, False)
    before = signal.set_wakeup_fd(wake_fd, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        is_ended = True
        with suppress(BlockingIOError):  # then it is full, and the thread has something to read
            os.write(wake_fd, b"\0")
        thread.join()
        for fd in (signals_fd, wake_fd):
            os.close(fd)

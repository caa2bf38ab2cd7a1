"""The loop of a worker: takes items, calls a handler, and ends cleanly at SIGTERM."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        self._opened.wake()

    def _run_threads(self, count: int) -> None:
        threads = [threading.Thread(target=self._take_items_in_thread, name="binlog-worker") for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
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
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

"""The calls of asyncio tasks: one thread gets items for all tasks of a group, and one ends items.

Items that tasks end at the same time are ended by one operation, and so by one sync.  No call blocks the event loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from binlog.consumers.item import Item
from binlog.errors import BinlogError, ClosedError, LeaseLostError
from binlog.format.consumers.operation import Delivery, Kind, Section

_TOGETHER_MAX = 1000


class _Request(NamedTuple):
    """A task that waits for an item."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Item]


class _Ending(NamedTuple):
    """A task that ends an item."""

    section: Section
    item: Item
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class BlockingCalls(Protocol):
    """The blocking calls that the threads make: those of an open group."""

    def take(self, count: int, timeout: float | None, is_wanted: Callable[[], bool] | None = None) -> Item | None: ...
    def refused(self, sections: list[Section], items: list[Item]) -> list[Delivery]: ...
    def begin_taking(self, ahead: int) -> None: ...
    def end_taking(self, ahead: int) -> None: ...
    def wake(self) -> None: ...


class TaskCalls:
    """The calls of the tasks of one group, in any number of event loops."""

    def __init__(self, group: BlockingCalls) -> None:
        self._group = group
        self._changed = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._ahead: list[int] = []  # of each loop
        self._is_closed = False
        self._endings: queue.SimpleQueue[_Ending | Callable[[], None] | None] = queue.SimpleQueue()
        for run, name in ((self._get_items, "binlog-items"), (self._end_items, "binlog-endings")):
            threading.Thread(target=run, name=name, daemon=True).start()

    # --- in the event loop

    def begin(self, ahead: int) -> None:
        """Begin a loop that has `ahead` items assigned ahead."""
        self._ahead.append(ahead)
        self._endings.put(lambda: self._group.begin_taking(ahead))

    def end(self, ahead: int) -> None:
        """End a loop."""
        self._ahead.remove(ahead)
        self._endings.put(lambda: self._group.end_taking(ahead))

    async def take(self, timeout: float | None) -> Item | None:
        """Return the next item; None after `timeout` seconds.  If the task is cancelled, another one gets the item."""
        loop = asyncio.get_running_loop()
        request = _Request(loop, loop.create_future())
        with self._changed:
            if self._is_closed:
                raise ClosedError("the consumer group is closed")
            self._waiting.append(request)
            self._changed.notify()
        is_cancelled = True
        try:
            await asyncio.wait([request.future], timeout=timeout)
            is_cancelled = False
        finally:
            if not request.future.done():
                request.future.cancel()
                self._forget(request)
            elif is_cancelled and request.future.exception() is None:
                self._deliver(request.future.result())
        return None if request.future.cancelled() else request.future.result()

    def _forget(self, request: _Request) -> None:
        with suppress(ValueError), self._changed:
            self._waiting.remove(request)
        self._group.wake()

    async def finish(self, section: Section, item: Item) -> None:
        """End a delivery.  If the task is cancelled meanwhile, the delivery ends all the same.

        Raises: LeaseLostError if it does not count, and others.
        """
        loop = asyncio.get_running_loop()
        ending = _Ending(section, item, loop, loop.create_future())
        with self._changed:
            if self._is_closed:
                raise ClosedError("the consumer group is closed")
            self._endings.put(ending)
        await ending.future

    # --- in the threads

    def _get_items(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if self._is_closed:
                    return
            try:
                item = self._group.take(1 + max(self._ahead, default=0), None, self._is_wanted)
            except BaseException as error:  # noqa: BLE001 - the tasks raise it
                self._fail_all(error)
                continue
            if item is not None:
                self._deliver(item)

    def _is_wanted(self) -> bool:
        return bool(self._waiting) and not self._is_closed

    def _deliver(self, item: Item) -> None:
        """Give an item to the next task that waits, or back to the group if none does."""
        with self._changed:
            request = self._waiting.popleft() if self._waiting else None
        if request is None:
            self._endings.put(lambda: self._give_back(item))
        elif not _call_soon(request.loop, self._resolve, request.future, item):
            self._deliver(item)  # its event loop is closed

    def _resolve(self, future: asyncio.Future[Item], item: Item) -> None:
        if future.done():
            self._deliver(item)  # the task was cancelled
        else:
            future.set_result(item)

    def _give_back(self, item: Item) -> None:
        with suppress(BinlogError):
            self._group.refused([(Kind.BACK, [item.this])], [item])

    def _fail_all(self, error: BaseException) -> None:
        with self._changed:
            failed = list(self._waiting)
            self._waiting.clear()
        for request in failed:
            _call_soon(request.loop, _set_exception, request.future, error)

    def _end_items(self) -> None:
        """End items until `close`.  After that only those that are waiting, which get ClosedError."""
        while (first := self._endings.get()) is not None:
            endings = list[_Ending]()
            while True:
                if isinstance(first, _Ending):
                    endings.append(first)
                else:
                    self._end(endings)
                    endings = []
                    if first is None:
                        return
                    with suppress(BinlogError):  # the next call of a task raises it
                        first()
                if self._endings.empty() or len(endings) >= _TOGETHER_MAX:
                    break
                first = self._endings.get()
            self._end(endings)

    def _end(self, endings: list[_Ending]) -> None:
        for epoch in sorted({ending.item.epoch for ending in endings}):
            self._end_together([ending for ending in endings if ending.item.epoch == epoch])

    def _end_together(self, endings: list[_Ending]) -> None:
        sections: dict[Kind, list[Any]] = {}
        for ending in endings:
            sections.setdefault(ending.section[0], []).extend(ending.section[1])
        try:
            refused = set(self._group.refused(list(sections.items()), [ending.item for ending in endings]))
        except BaseException as error:  # noqa: BLE001 - the tasks raise it
            for ending in endings:
                _call_soon(ending.loop, _set_exception, ending.future, error)
            return
        for ending in endings:
            if ending.item.this in refused:
                lost = LeaseLostError(f"message {ending.item.sequence}: it is done, or another member has it")
                _call_soon(ending.loop, _set_exception, ending.future, lost)
            else:
                _call_soon(ending.loop, _set_done, ending.future)

    def close(self) -> None:
        """End the threads; tasks that wait get ClosedError."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
            self._endings.put(None)
        self._fail_all(ClosedError("the consumer group was closed meanwhile"))


def _call_soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *arguments: object) -> bool:
    """Let an event loop make a call; return False if the loop is closed."""
    try:
        loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        return False
    return True


def _set_exception(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _set_done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

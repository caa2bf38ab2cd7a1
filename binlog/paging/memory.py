"""How much of memory the messages take that are held, by reference counts: of each address, and of all together.

Waiting under a monitor, for what an interrupted change of another thread may bring about without telling.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.storage.native import Monitor
from binlog.storage.waiting.bell_watcher import GREEN_SECONDS, green_sleep

# A change that an exception leaves half done poisons the paging, and wakes no thread: those that wait look so often.
RECHECK_SECONDS = 1.0


def wait_for_notice(monitor: Monitor, seconds: float | None = None) -> None:
    """Give the monitor away until a notice, or for so long at most; it may return early.

    If threads are greenlets, the others run meanwhile, and this looks again soon: nothing tells a greenlet of a notice.
    """
    sleep = green_sleep()
    if sleep is None:
        monitor.wait(-1 if seconds is None else seconds)
        return
    monitor.__exit__(None, None, None)
    try:
        sleep(GREEN_SECONDS if seconds is None else min(seconds, GREEN_SECONDS))
    finally:
        monitor.__enter__()


def wait_until(monitor: Monitor, is_over: Callable[[], object], timeout: float | None = None) -> None:
    """Wait until it is over, or for so many seconds; the monitor is held."""
    end = None if timeout is None else time.monotonic() + timeout
    while not is_over():
        seconds = RECHECK_SECONDS if end is None else min(RECHECK_SECONDS, end - time.monotonic())
        if seconds <= 0:
            return
        wait_for_notice(monitor, seconds)


class HeldMessage:
    """A message in memory, for as long as somebody refers to it."""

    __slots__ = ("_memory", "_references", "message")

    def __init__(self, memory: AddressMemory, message: bytes, references: int) -> None:
        self.message = message
        self._memory = memory
        self._references = references

    def add_reference(self) -> None:
        """One more refers to it.  Raises: ValueError where nobody did."""
        self._memory.change(self, 1)

    def release(self) -> None:
        """One less does; with the last one it takes no memory any more.  Raises: ValueError where nobody did."""
        self._memory.change(self, -1)


class Memory:
    """The messages of all addresses that are in memory.

    bytes_max: None for no limit.  used_bytes: of the messages alone.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.mutex = Monitor()


class AddressMemory:
    """Those of one address.

    released: called, with nothing locked, whenever there is more room.
    """

    def __init__(self, memory: Memory, bytes_max: int | None, released: Callable[[], None]) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._memory = memory
        self._released = released

    def hold(self, message: bytes, references: int = 1) -> HeldMessage:
        """A message in memory, whatever the limits are.  references: so many refer to it.  Raises: ValueError."""
        return self._hold(message, references, within=False)  # type: ignore[return-value]

    def try_hold(self, message: bytes, references: int = 1) -> HeldMessage | None:
        """A message in memory, where both limits allow it, or nothing else is there; None else.  Raises: ValueError."""
        return self._hold(message, references, within=True)

    def wait(self, message_bytes: int, timeout: float) -> None:
        """Wait until there is room for a message of so many bytes, or maybe is."""
        with self._memory.mutex:
            if not self._fits(message_bytes):
                wait_for_notice(self._memory.mutex, timeout)

    def change(self, held: HeldMessage, by: int) -> None:
        """More or less refer to a message."""
        with self._memory.mutex:
            if held._references < 1:
                raise ValueError("nobody refers to this message any more")
            held._references += by
            if held._references:
                return
            self._memory.used_bytes -= len(held.message)
            self.used_bytes -= len(held.message)
            self._memory.mutex.notify()
        self._released()

    def _hold(self, message: bytes, references: int, *, within: bool) -> HeldMessage | None:
        if references < 1:
            raise ValueError(f"{references} refer to the message")
        with self._memory.mutex:
            if within and not self._fits(len(message)):
                return None
            self._memory.used_bytes += len(message)
            self.used_bytes += len(message)
        return HeldMessage(self, message, references)

    def _fits(self, message_bytes: int) -> bool:
        places = ((self.used_bytes, self.bytes_max), (self._memory.used_bytes, self._memory.bytes_max))
        return all(limit is None or used == 0 or used + message_bytes <= limit for used, limit in places)

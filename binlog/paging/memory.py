"""Counts references to the messages in memory, and the bytes of each address and of all addresses.

Also has functions that wait under a monitor for a condition that an interrupted change may cause without a notice.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from binlog.storage.native import Monitor
from binlog.storage.waiting.bell_watcher import GREEN_SECONDS, green_sleep

# If an exception breaks off a change, it poisons the paging without waking any thread.  So waiting threads check this
# often.
RECHECK_SECONDS = 1.0


def wait_for_notice(monitor: Monitor, seconds: float | None = None) -> None:
    """Wait for a notice, for at most so long, with the monitor released meanwhile; it may return early.

    If threads are greenlets, the others run meanwhile.  A greenlet gets no notice, so the wait is short.
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
    """Wait until `is_over` is true, or for `timeout` seconds; the caller holds the monitor."""
    end = None if timeout is None else time.monotonic() + timeout
    while not is_over():
        seconds = RECHECK_SECONDS if end is None else min(RECHECK_SECONDS, end - time.monotonic())
        if seconds <= 0:
            return
        wait_for_notice(monitor, seconds)


class HeldMessage:
    """A message in memory, until its last reference is released."""

    __slots__ = ("_memory", "_references", "message")

    def __init__(self, memory: AddressMemory, message: bytes, references: int) -> None:
        self.message = message
        self._memory = memory
        self._references = references

    def add_reference(self) -> None:
        """Add a reference.  Raises: ValueError if the message was released already."""
        self._memory.change(self, 1)

    def release(self) -> None:
        """Release a reference; the last one frees the memory.

        Raises: ValueError if the message was released already.
        """
        self._memory.change(self, -1)


class Memory:
    """The memory of all addresses.

    bytes_max: None for no limit.  used_bytes: bytes of the messages alone.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self.mutex = Monitor()


class AddressMemory:
    """The memory of one address.

    released: called, without any lock, whenever memory becomes free.
    """

    def __init__(self, memory: Memory, bytes_max: int | None, released: Callable[[], None]) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._memory = memory
        self._released = released

    def hold(self, message: bytes, references: int = 1) -> HeldMessage:
        """Hold a message with this many references, regardless of the limits.  Raises: ValueError."""
        return self._hold(message, references, within=False)  # type: ignore[return-value]

    def try_hold(self, message: bytes, references: int = 1) -> HeldMessage | None:
        """Hold a message if both limits allow it, or if nothing else is held; otherwise return None.

        Raises: ValueError.
        """
        return self._hold(message, references, within=True)

    def wait(self, message_bytes: int, timeout: float) -> None:
        """Wait until there may be room for a message of this size."""
        with self._memory.mutex:
            if not self._fits(message_bytes):
                wait_for_notice(self._memory.mutex, timeout)

    def change(self, held: HeldMessage, by: int) -> None:
        """Change the number of references to a message."""
        with self._memory.mutex:
            if held._references < 1:
                raise ValueError("the message was released already")
            held._references += by
            if held._references:
                return
            self._memory.used_bytes -= len(held.message)
            self.used_bytes -= len(held.message)
            self._memory.mutex.notify()
        self._released()

    def _hold(self, message: bytes, references: int, *, within: bool) -> HeldMessage | None:
        if references < 1:
            raise ValueError(f"references={references!r}; at least 1 is needed")
        with self._memory.mutex:
            if within and not self._fits(len(message)):
                return None
            self._memory.used_bytes += len(message)
            self.used_bytes += len(message)
        return HeldMessage(self, message, references)

    def _fits(self, message_bytes: int) -> bool:
        limits = ((self.used_bytes, self.bytes_max), (self._memory.used_bytes, self._memory.bytes_max))
        return all(limit is None or used == 0 or used + message_bytes <= limit for used, limit in limits)

"""One thread that waits on doorbells for all of a process's event loops.

It sleeps in futex_waitv(2) (Linux 5.16) on the bells asked for and on a word
of its own, which asks it to look at its list again.  Where the kernel has no
such call, or more bells are asked for than one call takes, the rest are looked
at every few milliseconds.

Invariants: the list of waits is touched under the mutex only; the thread ends
under the mutex when the list is empty, so a wait added later starts another.
"""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from binlog.storage.doorbell import Doorbell, kernel_word
from binlog.storage.native import ffi, fork_generation, lib

_WORDS_MAX = 127
_POLL_SECONDS = 0.005


@dataclass(eq=False, slots=True)
class _Wait:
    doorbell: Doorbell
    seen: int
    deadline: float
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]

    def over(self, now: float) -> bool:
        """Whether there is nothing left to wait for."""
        if now >= self.deadline or self.future.cancelled() or self.doorbell.closed:
            return True
        try:
            return self.doorbell.value() != self.seen
        except OSError:
            return True  # its reader was closed just now; the coroutine finds out for itself

    def finish(self) -> None:
        """Let the waiting coroutine go on."""
        with suppress(RuntimeError):  # its loop was closed, and nobody waits any more
            self.loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class BellWatcher:
    """The thread and its list."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waits: list[_Wait] = []
        self._running = False
        self._kick = ffi.new("uint32_t *")

    async def wait(self, doorbell: Doorbell, seen: int, timeout: float) -> None:
        """Wait until the bell differs from `seen`, `timeout` seconds at most."""
        loop = asyncio.get_running_loop()
        wait = _Wait(doorbell, seen, time.monotonic() + timeout, loop, loop.create_future())
        with self._mutex:
            self._waits.append(wait)
            self._kick[0] = (self._kick[0] + 1) & 0xFFFFFFFF
            started = self._running = self._running or self._start_thread()
            if not started:
                self._waits.remove(wait)
        if not started:
            await asyncio.sleep(min(timeout, _POLL_SECONDS))
            return
        lib.binlog_bell_wake(self._kick)
        await wait.future

    def _start_thread(self) -> bool:
        try:
            threading.Thread(target=self._run, name="binlog-bells", daemon=True).start()
        except RuntimeError:
            return False  # no more threads for this process: whoever waits polls
        return True

    def _run(self) -> None:
        while True:
            with self._mutex:
                kick = self._kick[0]
                now = time.monotonic()
                over = [wait for wait in self._waits if wait.over(now)]
                self._waits = [wait for wait in self._waits if wait not in over]
                waits = list(self._waits)
                self._running = bool(waits) or bool(over)
            for wait in over:
                wait.finish()
            if not self._running:
                return
            if waits:
                self._sleep(kick, waits, min(wait.deadline for wait in waits) - now)

    def _sleep(self, kick: int, waits: list[_Wait], timeout: float) -> None:
        words = {wait.doorbell.address(): wait.seen for wait in waits}
        polled = words.pop(None, None) is not None or len(words) > _WORDS_MAX
        if polled:
            timeout = min(timeout, _POLL_SECONDS)
        chosen = list(words.items())[:_WORDS_MAX]
        addresses = ffi.new("void *[]", [self._kick, *(address for address, _ in chosen)])
        seen = ffi.new("uint32_t[]", [kick, *(kernel_word(value) for _, value in chosen)])
        result = lib.binlog_bell_wait_any(addresses, seen, len(chosen) + 1, max(0, int(timeout * 1e9)))
        if result not in (-errno.ETIMEDOUT, -errno.EAGAIN, -errno.EINTR) and result < 0:
            time.sleep(min(_POLL_SECONDS, max(0.0, timeout)))


@lru_cache(maxsize=1)
def _watcher(generation: int) -> BellWatcher:
    # By generation: the thread does not survive a fork, so a child has a watcher of its own.
    return BellWatcher()


async def watch(doorbell: Doorbell, seen: int, timeout: float) -> None:
    """Wait in asyncio until the bell differs from `seen`, for `timeout` seconds at most.  May return early."""
    await _watcher(fork_generation()).wait(doorbell, seen, timeout)

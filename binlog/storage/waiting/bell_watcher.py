"""A thread that waits on doorbells for the event loops and greenlets of a process.

An event loop must not block its thread, and neither must a greenlet of gevent or eventlet, because a wait in the kernel
would stop all greenlets of the thread.  So they wait for this thread.  It sleeps in futex_waitv(2) (Linux 5.16) on all
the doorbells and on a word of its own, which others change to make it reread its list.  If the kernel lacks that call,
or there are more doorbells than one call takes, the thread polls the rest every few milliseconds.

Invariants: the list of waits changes only under the mutex.  The thread ends under the mutex when the list is empty, so
a wait that is added later starts another thread.

Facts relied on:
- gevent.monkey.is_module_patched, eventlet.patcher.is_monkey_patched: whether `threading` makes greenlets in place of
  threads.  A program may patch it after this package was imported, so each wait asks again.
- gevent.sleep, eventlet.sleep: let other greenlets run, whether `time` is patched or not.
- gevent.select.select, eventlet.green.select.select: let other greenlets run until a descriptor is readable, whether
  `select` is patched or not.  Killing a greenlet raises an exception out of both.
- gevent.monkey.get_original, eventlet.patcher.original: return the unpatched functions.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from binlog.storage.native import ffi, fork_generation, lib

GREEN_SECONDS = 0.002
"""How long to sleep between two polls if nothing wakes the greenlet."""


@dataclass(frozen=True, slots=True)
class GreenHub:
    """The functions of gevent or eventlet by which a greenlet waits, and those that start real threads.

    sleep: takes seconds.  start_thread, allocate_lock: of `_thread`, unpatched.
    """

    sleep: Callable[[float], object]
    start_thread: Callable[[Callable[[], None], tuple[()]], object]
    allocate_lock: Callable[[], Any]
    _select: Callable[[list[int], list[int], list[int], float], object]

    def wait_readable(self, fd: int, timeout: float) -> None:
        """Let other greenlets run until the descriptor is readable, for `timeout` seconds at most."""
        self._select([fd], [], [], timeout)


def green_hub() -> GreenHub | None:
    """Return the hub of this process, or None if its threads are not greenlets."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return _gevent_hub()
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        return _eventlet_hub()
    return None


@lru_cache(maxsize=1)
def _gevent_hub() -> GreenHub:
    names = ["start_new_thread", "allocate_lock"]
    start_thread, allocate_lock = import_module("gevent.monkey").get_original("_thread", names)
    return GreenHub(import_module("gevent").sleep, start_thread, allocate_lock, import_module("gevent.select").select)


@lru_cache(maxsize=1)
def _eventlet_hub() -> GreenHub:
    # From `_thread`, because `threading` renamed its reference in Python 3.13.
    thread = import_module("eventlet.patcher").original("_thread")
    select = import_module("eventlet.green.select").select
    return GreenHub(import_module("eventlet").sleep, thread.start_new_thread, thread.allocate_lock, select)


def green_sleep() -> Callable[[float], object] | None:
    """Return the function that sleeps and lets other greenlets run, or None if threads are not greenlets."""
    hub = green_hub()
    return None if hub is None else hub.sleep


_WORDS_MAX = 127
_POLL_SECONDS = 0.005


class Bell(Protocol):
    """A doorbell; see Doorbell.  wakes: how often this process has woken its waiters."""

    closed: bool
    wakes: int

    def address(self) -> object | None: ...
    def value(self) -> int: ...


class _NoBell:
    """A doorbell that no process rings."""

    closed = False
    wakes = 0

    def address(self) -> object | None:
        return None

    def value(self) -> int:
        return 0


NO_BELL = _NoBell()


def kernel_word(value: int) -> int:
    """Return a doorbell's value, which is big-endian on disk, as the machine word that the kernel compares."""
    return int.from_bytes(value.to_bytes(4, "big"), sys.byteorder)


@dataclass(eq=False, slots=True)
class _Wait:
    """One wait.

    wakes: of the doorbell, when the wait began.  finish: the thread calls it once, at the end of the wait.
    given_up: returns whether the waiter has gone.
    """

    bell: Bell
    seen: int
    wakes: int
    deadline: float
    finish: Callable[[], None]
    given_up: Callable[[], bool]

    def is_over(self, now: float) -> bool:
        """Return whether the wait has ended."""
        if now >= self.deadline or self.given_up() or self.bell.closed or self.bell.wakes != self.wakes:
            return True
        try:
            return self.bell.value() != self.seen
        except OSError:
            return True  # its reader was closed just now, and the waiter will notice


class BellWatcher:
    """The thread and its list of waits.  hub: None if threads are not greenlets."""

    def __init__(self, hub: GreenHub | None) -> None:
        self._hub = hub
        self._mutex: Any = threading.Lock() if hub is None else hub.allocate_lock()
        self._waits: list[_Wait] = []
        self._running = False
        self._kick = ffi.new("uint32_t *")

    async def wait_in_loop(self, bell: Bell, seen: int, timeout: float) -> None:
        """Wait in asyncio until the doorbell differs from `seen`, for `timeout` seconds at most."""
        import asyncio  # imported here, because only programs with an event loop need it

        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def set_result() -> None:
            if not future.done():
                future.set_result(None)

        def finish() -> None:
            with suppress(RuntimeError):  # the loop was closed, so the waiter has gone
                loop.call_soon_threadsafe(set_result)

        if self._add(_Wait(bell, seen, bell.wakes, time.monotonic() + timeout, finish, future.cancelled)):
            await future
        else:
            await asyncio.sleep(min(timeout, _POLL_SECONDS))

    def wait_in_hub(self, bell: Bell, seen: int, timeout: float, hub: GreenHub) -> None:
        """Wait in a greenlet until the doorbell differs from `seen`, for `timeout` seconds at most."""
        try:
            fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        except OSError:  # this process has no free descriptor, so the caller polls
            hub.sleep(min(timeout, GREEN_SECONDS))
            return
        closed = False

        def finish() -> None:
            with self._mutex:
                if not closed:
                    os.eventfd_write(fd, 1)

        try:
            if self._add(_Wait(bell, seen, bell.wakes, time.monotonic() + timeout, finish, lambda: closed)):
                hub.wait_readable(fd, timeout)
            else:
                hub.sleep(min(timeout, GREEN_SECONDS))
        finally:
            # Under the mutex: the thread must not write to a descriptor number that names another file by then.
            with self._mutex:
                closed = True
                os.close(fd)

    def _add(self, wait: _Wait) -> bool:
        """Add a wait; return False if the process can start no thread, and then the waiter must poll."""
        with self._mutex:
            self._waits.append(wait)
            self._kick[0] = (self._kick[0] + 1) & 0xFFFFFFFF
            started = self._running = self._running or self._start_thread()
            if not started:
                self._waits.remove(wait)
        if started:
            lib.binlog_bell_wake(self._kick)
        return started

    def _start_thread(self) -> bool:
        try:
            if self._hub is None:
                threading.Thread(target=self._run, name="binlog-bells", daemon=True).start()
            else:
                self._hub.start_thread(self._run, ())
        except RuntimeError:
            return False
        return True

    def _run(self) -> None:
        while True:
            with self._mutex:
                kick = self._kick[0]
                now = time.monotonic()
                ended = [wait for wait in self._waits if wait.is_over(now)]
                self._waits = [wait for wait in self._waits if wait not in ended]
                waits = list(self._waits)
                self._running = bool(waits) or bool(ended)
            for wait in ended:
                wait.finish()
            if not self._running:
                return
            if waits:
                self._sleep(kick, waits, min(wait.deadline for wait in waits) - now)

    def _sleep(self, kick: int, waits: list[_Wait], timeout: float) -> None:
        words = {wait.bell.address(): wait.seen for wait in waits}
        polled = words.pop(None, None) is not None or len(words) > _WORDS_MAX
        if polled:
            timeout = min(timeout, _POLL_SECONDS)
        chosen = list(words.items())[:_WORDS_MAX]
        addresses = ffi.new("void *[]", [self._kick, *(address for address, _ in chosen)])
        seen = ffi.new("uint32_t[]", [kick, *(kernel_word(value) for _, value in chosen)])
        result = lib.binlog_bell_wait_any(addresses, seen, len(chosen) + 1, max(0, int(timeout * 1e9)))
        if result not in (-errno.ETIMEDOUT, -errno.EAGAIN, -errno.EINTR) and result < 0:
            # Not `time.sleep`, which may be patched.
            lib.binlog_bell_wait(self._kick, kick, int(min(_POLL_SECONDS, max(0.0, timeout)) * 1e9))


@lru_cache(maxsize=2)
def _watcher(generation: int, hub: GreenHub | None) -> BellWatcher:
    # By fork generation, because the thread does not survive a fork, and a child needs another one.
    return BellWatcher(hub)


async def watch(bell: Bell, seen: int, timeout: float) -> None:
    """Wait in asyncio until the doorbell differs from `seen`, for `timeout` seconds at most.  May return early."""
    await _watcher(fork_generation(), None).wait_in_loop(bell, seen, timeout)


def watch_in_hub(bell: Bell, seen: int, timeout: float, hub: GreenHub) -> None:
    """Wait in a greenlet as `watch`, while other greenlets run."""
    _watcher(fork_generation(), hub).wait_in_hub(bell, seen, timeout, hub)

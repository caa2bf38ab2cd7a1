"""Waiting under gevent or eventlet, where a wait in the kernel would stop all that the thread's greenlets do.

Facts relied on:
- gevent.monkey.is_module_patched, eventlet.patcher.is_monkey_patched: whether `threading` makes greenlets in place of
  threads.  A program may patch it after this package was loaded, so it is asked for each wait.
- gevent.sleep, eventlet.sleep: let the others run, whether `time` is patched or not.
- gevent.select.select, eventlet.green.select.select: the same until a descriptor is readable, whether `select` is
  patched or not.  What ends a greenlet is raised out of both.
- gevent.monkey.get_original, eventlet.patcher.original: what was there before it was patched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

GREEN_SECONDS = 0.002
"""How long to sleep between two looks, where nothing tells when to look."""


@dataclass(frozen=True, slots=True)
class GreenHub:
    """What such a library has in place of the kernel's waits, and the threads that it hides.

    sleep: for some seconds.  start_thread, allocate_lock: of `_thread`, unpatched.
    """

    sleep: Callable[[float], object]
    start_thread: Callable[[Callable[[], None], tuple[()]], object]
    allocate_lock: Callable[[], Any]
    _select: Callable[[list[int], list[int], list[int], float], object]

    def wait_readable(self, fd: int, timeout: float) -> None:
        """Let other greenlets run until the descriptor is readable, for `timeout` seconds at most."""
        self._select([fd], [], [], timeout)


def green_hub() -> GreenHub | None:
    """The hub of this process; None where threads are threads."""
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
    # Not `threading`, whose name for it changed in Python 3.13.
    thread = import_module("eventlet.patcher").original("_thread")
    select = import_module("eventlet.green.select").select
    return GreenHub(import_module("eventlet").sleep, thread.start_new_thread, thread.allocate_lock, select)


def green_sleep() -> Callable[[float], object] | None:
    """What lets other greenlets run for some seconds; None where threads are threads."""
    hub = green_hub()
    return None if hub is None else hub.sleep

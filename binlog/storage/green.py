"""Waiting under gevent or eventlet, where a wait in the kernel would stop all that the thread's greenlets do.

Facts relied on:
- gevent.monkey.is_module_patched, eventlet.patcher.is_monkey_patched: whether `threading` makes greenlets in place of
  threads.  A program may patch it after this package was loaded, so it is asked for each wait.
- gevent.sleep, eventlet.sleep: let the others run, whether `time` is patched or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

GREEN_SECONDS = 0.002
"""How long to sleep between two looks, where a wait in the kernel would wake at once."""


def green_sleep() -> Callable[[float], object] | None:
    """What lets other greenlets run for some seconds; None where threads are threads."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return sys.modules["gevent"].sleep  # type: ignore[no-any-return]
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        return sys.modules["eventlet"].sleep  # type: ignore[no-any-return]
    return None

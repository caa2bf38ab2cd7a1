"""Interruptions: an exception of a signal handler at each place in a call at which one can be raised."""

from __future__ import annotations

import dis
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import binlog

# A handler runs where a Python function begins, at the end of a C call, and where a loop jumps back.  Its exception is
# raised from that call, as here, whichever `try` or `with` statement the next instruction is in.
_LOOPS = {"JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}

# The whole path: a checkout is often named binlog too, and has other libraries in its .venv.
_PACKAGE = f"{Path(binlog.__file__).parent}/"


def at_each_place(interrupt: Callable[[int], bool | None]) -> tuple[int, int]:
    """Interrupt a call at one place after another, until it has no more.

    Returns the number of interruptions, and after how many of them the called object was usable.

    interrupt: does so at one place; returns whether the object was usable, None if there is no such place.
    """
    at = usable = 0
    while (is_usable := interrupt(at)) is not None:
        at += 1
        usable += is_usable
    return at, usable


@contextmanager
def slow_after(name: str, seconds: float) -> Iterator[None]:
    """Make this thread sleep after the first call of a C function, as if other threads had the processor then."""

    def profile(_: FrameType, event: str, argument: Any) -> None:
        if event == "c_return" and argument.__name__ == name:
            sys.setprofile(None)
            time.sleep(seconds)

    sys.setprofile(profile)
    try:
        yield
    finally:
        assert sys.getprofile() is None, f"{name} was not called"


@contextmanager
def just_before(function: Callable[..., Any], work: Callable[[], object]) -> Iterator[None]:
    """Call `work` before this thread's first call of a Python function; it lets other threads run."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is function.__code__:
            sys.setprofile(None)
            work()

    sys.setprofile(profile)
    try:
        yield
    finally:
        assert sys.getprofile() is None, f"{function.__name__} was not called"


class Interruption:
    """Raises KeyboardInterrupt at one of the places of a call.  raised: whether it did, even if the exception was
    swallowed.

    passed: the number of places that the call has reached.
    within: a part of the paths of the files whose code counts.
    """

    def __init__(self, at: int, within: str = _PACKAGE) -> None:
        self._at = at
        self.passed = 0
        self._within = within
        self._last: dict[FrameType, str] = {}

    def run(self, call: Callable[[], object]) -> bool:
        """Make the call; return whether it was interrupted, and did not end before.

        No garbage is collected meanwhile, because another object's finalizer is not a place of the call.
        """
        gc.disable()
        sys.setprofile(self._profile)
        sys.settrace(self._trace)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
            sys.setprofile(None)
            gc.enable()
            self._last.clear()  # frames that were left still refer to their objects
        return False

    @property
    def raised(self) -> bool:
        """See the class."""
        return self.passed > self._at

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not self._counts(frame):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._step()
        elif event == "opcode":
            if self._last.get(frame) in _LOOPS:
                self._step()
            self._last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        elif event == "return":
            self._last.pop(frame, None)
        return self._trace

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_return" and self._counts(frame):
            self._step()

    def _counts(self, frame: FrameType) -> bool:
        """Return whether the frame is the package's, or one of threading that the package has called."""
        caller: FrameType | None = frame
        while caller and caller.f_code.co_filename == threading.__file__:
            caller = caller.f_back
        return caller is not None and self._within in caller.f_code.co_filename

    def _step(self) -> None:
        self.passed += 1
        if self.passed == self._at + 1:
            raise KeyboardInterrupt

"""An exception of a signal handler, at each place at which one can come in the middle of a call."""

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

# A handler runs where a function of Python begins, at the end of a call of C, and where a loop goes back.  What it
# raises comes out of that call, as it does here: whatever `try` or `with` statement the next instruction is in.
_LOOPS = {"JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}

# The whole path: a checkout is itself named binlog as often as not, and holds other libraries in its .venv.
_PACKAGE = f"{Path(binlog.__file__).parent}/"


def at_each_place(interrupt: Callable[[int], bool | None]) -> tuple[int, int]:
    """Interrupt a call at one place after the other, until it has no more.

    Returns at how many it was interrupted, and after how many of them what was called was usable.

    interrupt: does so at one; whether it was usable then, None if there is no such place.
    """
    at = usable = 0
    while (is_usable := interrupt(at)) is not None:
        at += 1
        usable += is_usable
    return at, usable


@contextmanager
def slow_after(name: str, seconds: float) -> Iterator[None]:
    """Have this thread sleep after the first call of a function of C, as if others had the processor then."""

    def profile(_: FrameType, event: str, argument: Any) -> None:
        if event == "c_return" and argument.__name__ == name:
            sys.setprofile(None)
            time.sleep(seconds)

    sys.setprofile(profile)
    try:
        yield
    finally:
        assert sys.getprofile() is None, f"{name} was not called"


class Interruption:
    """Raises KeyboardInterrupt at one of the places of a call.  raised: it did, though nobody may have heard of it.

    passed: how many places the call has come to.
    within: a part of the paths of the files that these places are in.
    """

    def __init__(self, at: int, within: str = _PACKAGE) -> None:
        self._at = at
        self.passed = 0
        self._within = within
        self._last: dict[FrameType, str] = {}

    def run(self, call: Callable[[], object]) -> bool:
        """Make the call; whether it was interrupted, and did not end before.

        No garbage is collected meanwhile: the finalizer of something else is no place of the call.
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
            self._last.clear()  # frames that were left keep all that they had
        return False

    @property
    def raised(self) -> bool:
        """See above."""
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
        """Whether it is the package's, or one of threading that the package has called."""
        caller: FrameType | None = frame
        while caller and caller.f_code.co_filename == threading.__file__:
            caller = caller.f_back
        return caller is not None and self._within in caller.f_code.co_filename

    def _step(self) -> None:
        self.passed += 1
        if self.passed == self._at + 1:
            raise KeyboardInterrupt

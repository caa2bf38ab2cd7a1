"""An exception of a signal handler, at each place at which one can come in the middle of a call."""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import binlog

# A handler runs where a function begins, behind a call, and where a loop goes back.
_STEPS = {"CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"}

# The whole path: a checkout is itself named binlog as often as not, and holds other libraries in its .venv.
_PACKAGE = f"{Path(binlog.__file__).parent}/"


class Interruption:
    """Raises KeyboardInterrupt at one of the places of a call.  raised: it did, though nobody may have heard of it.

    within: a part of the paths of the files that these places are in.
    """

    def __init__(self, at: int, within: str = _PACKAGE) -> None:
        self._left = at
        self._within = within
        self._last: dict[FrameType, str] = {}

    def run(self, call: Callable[[], object]) -> bool:
        """Make the call; whether it was interrupted, and did not end before.

        No garbage is collected meanwhile: the finalizer of something else is no place of the call.
        """
        gc.disable()
        sys.settrace(self._trace)
        try:
            call()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
            gc.enable()
            self._last.clear()  # frames that were left keep all that they had
        return False

    @property
    def raised(self) -> bool:
        """See above."""
        return self._left < 0

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if self._within not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._step()
        elif event == "opcode":
            if self._last.get(frame) in _STEPS:
                self._step()
            self._last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        elif event == "return":
            self._last.pop(frame, None)
        return self._trace

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt

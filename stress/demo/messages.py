"""What the demo's processes tell the director: lines on their standard output, which is a pipe to it."""

from __future__ import annotations

import ctypes
import os
import signal

_STDOUT = 1
_PR_SET_PDEATHSIG = 1


def send(*words: object) -> None:
    """Send one line, whole and at once: what was told before a `kill -9` has been told.

    Blocks: while the pipe is full.
    """
    line = " ".join(map(str, words)).encode(errors="backslashreplace")
    # A pipe takes up to 4096 bytes in one piece (pipe(7)).
    os.write(_STDOUT, line[:4095] + b"\n")


def end_with_director() -> None:
    """Let this process end without a word when the director is gone, however that ended."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # One that only waits tells nothing: the kernel ends it (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

"""Messages from the demo's processes to the director, as lines on their standard output."""

from __future__ import annotations

import ctypes
import os
import signal

_STDOUT = 1
_PR_SET_PDEATHSIG = 1


def send(*words: object) -> None:
    """Send one line atomically, so that a message sent before a `kill -9` is received completely.

    Blocks while the pipe is full.
    """
    line = " ".join(map(str, words)).encode(errors="backslashreplace")
    # A write of up to 4096 bytes to a pipe is atomic (pipe(7)).
    os.write(_STDOUT, line[:4095] + b"\n")


def end_with_director() -> None:
    """Make this process exit silently when the director exits, for any reason."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    # A process that only waits sends nothing, so the kernel must end it (prctl(2)).
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

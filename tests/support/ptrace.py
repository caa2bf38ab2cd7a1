"""ptrace(2) through ctypes: the few requests that a tracer of system calls needs.

Facts it relies on:

1. ptrace(2): a tracee belongs to the *thread* that seized it, and each request has to come from that thread, while the
   tracee stands still (PTRACE_INTERRUPT excepted).
2. ptrace(2): PTRACE_SEIZE does not stop the tracee; PTRACE_INTERRUPT does. With PTRACE_O_TRACECLONE the kernel seizes
   new threads, which start in a PTRACE_EVENT_STOP. Forked processes are left alone: neither PTRACE_O_TRACEFORK nor
   PTRACE_O_TRACEVFORK is set.
3. ptrace(2): PTRACE_O_EXITKILL kills the tracee when its tracer goes, however it goes.
4. ptrace(2): a tracee that is killed while it stands still is gone at once: any request may answer ESRCH.
5. PTRACE_GET_SYSCALL_INFO (Linux 5.3) tells entry from exit, the number, the arguments and the result, the same way
   on every architecture.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal

# linux/ptrace.h
_DETACH, _SYSCALL, _GET_EVENT_MESSAGE = 17, 24, 0x4201
_SEIZE, _INTERRUPT, _LISTEN, _GET_SYSCALL_INFO = 0x4206, 0x4207, 0x4208, 0x420E
_OPTIONS = 0x1 | 0x8 | 0x100000  # PTRACE_O_TRACESYSGOOD, PTRACE_O_TRACECLONE, PTRACE_O_EXITKILL

# How a stop is told, in the signal's number and in the event above it
CALL_STOP = signal.SIGTRAP | 0x80
EVENT_CLONE, EVENT_STOP = 3, 128
CALL_ENTRY, CALL_EXIT = 1, 2

# PyDLL keeps the interpreter's lock, which is quicker: no request blocks.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class CallInfo(ctypes.Structure):
    """struct ptrace_syscall_info, with room for its longest form."""

    _fields_ = (
        ("operation", ctypes.c_uint8),
        ("architecture", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("value", ctypes.c_int64),  # at entry the call's number, at exit its result
        ("args", ctypes.c_uint64 * 6),
        ("more", ctypes.c_uint64 * 2),
    )


def seize(thread: int) -> None:
    """Become the tracer of a thread, with the options above. Raises: ProcessLookupError, PermissionError."""
    _request(_SEIZE, thread, data=_OPTIONS)


def interrupt(thread: int) -> bool:
    """Ask a thread to stop. False: it is gone."""
    return _request_unless_gone(_INTERRUPT, thread)


def go_on(thread: int, signal_number: int = 0) -> bool:
    """Let a thread run to its next entry or exit of a call, with a signal delivered. False: it is gone."""
    return _request_unless_gone(_SYSCALL, thread, signal_number)


def stay_stopped(thread: int) -> bool:
    """Leave a thread in the stop that SIGSTOP and the like made, until SIGCONT. False: it is gone."""
    return _request_unless_gone(_LISTEN, thread)


def detach(thread: int, signal_number: int = 0) -> bool:
    """Let a thread run untraced, with a signal delivered. False: it is gone."""
    return _request_unless_gone(_DETACH, thread, signal_number)


def call_info(thread: int) -> CallInfo | None:
    """What a stopped thread is about to do or has done; None if it is gone."""
    info = CallInfo()
    if _libc.ptrace(_GET_SYSCALL_INFO, thread, ctypes.sizeof(info), ctypes.addressof(info)) > 0:
        return info
    if (number := ctypes.get_errno()) == errno.ESRCH:
        return None
    raise OSError(number, "PTRACE_GET_SYSCALL_INFO is refused; it needs Linux 5.3")


def event_message(thread: int) -> int | None:
    """What belongs to the event that stopped a thread (EVENT_CLONE: the new thread's id); None if it is gone."""
    message = ctypes.c_ulong(0)
    return message.value if _request_unless_gone(_GET_EVENT_MESSAGE, thread, ctypes.addressof(message)) else None


def _request(request: int, thread: int, data: int = 0) -> None:
    if _libc.ptrace(request, thread, 0, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")


def _request_unless_gone(request: int, thread: int, data: int = 0) -> bool:
    try:
        _request(request, thread, data)
    except ProcessLookupError:
        return False
    return True

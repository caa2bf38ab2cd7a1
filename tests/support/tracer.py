"""See, one by one, the system calls that a child process makes, and kill it at any of them.

`trace` runs a function in a forked child and records its calls; with `kill_at=n` the child dies at the entry of its
n-th call. `observe` and `attached` record for a while the calls of a process that runs already, and then let it go.
It is ptrace(2) from Python: no package, no strace, nothing bound to one architecture.

Facts it relies on, beside those that ptrace.py opens with:

1. waitpid(2): with `__WNOTHREAD` a thread waits for its own children and tracees only. As each trace has a thread of
   its own, its waiting for "any" is safe beside whatever else runs in this process, and beside other traces.
2. Linux, ptrace_report_syscall(): a task with a fatal signal pending when it leaves the entry stop skips the call. So
   SIGKILL sent during the entry stop takes effect before the call does, and before any later one of another thread.
3. waitid(2): WNOWAIT leaves a dead child to be reaped by its parent.
4. Linux, do_wait(): without `__WNOTHREAD` a thread is also given the stops of what other threads trace, which are then
   lost to the tracer. So while a process is traced, nothing else here may wait for it, or for "any".
5. signal(7): being stopped interrupts a few calls that the kernel does not begin again (epoll_wait, sigtimedwait and
   some more answer EINTR). Python repeats them, so such a call is seen once too often by `observe`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from typing import NoReturn

from tests.support import ptrace
from tests.support.syscall_names import call_name

_ERROR_BYTES_MAX = 60_000  # a pipe takes as much without a reader
_GROUP_STOPS = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_OURS_ONLY = 0x20000000 | 0x40000000  # __WNOTHREAD | __WALL of linux/wait.h
_PR_SET_PDEATHSIG = 1

# The child says where `function` starts and ends with a call that no program makes: prctl(2) with an unknown option.
_MARK_OPTION, _MARK_VALUE, _MARK_START, _MARK_END = 0x62696E6C, 0x6C6F676D61726B, 1, 2

# malloc.h: one arena for all threads, no mmap for a large block, grow by much, never shrink
_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TOP_PAD, _M_TRIM_THRESHOLD = -8, -3, -2, -1
_MALLOC_OPTIONS = {_M_ARENA_MAX: 1, _M_MMAP_THRESHOLD: 32 << 20, _M_TOP_PAD: 64 << 20, _M_TRIM_THRESHOLD: 1 << 30}
_pinned: list[bytes] = []

# PyDLL keeps the interpreter's lock, so that the child's marks cost no futex call.
_libc = ctypes.PyDLL(None)
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


@dataclass(slots=True)
class Call:
    """One system call: raw arguments, and its result, which is -errno for an error.

    Results of -512 to -516 never reach the program: a signal interrupted the call, which the kernel may begin again.
    result: None when it had not returned by the end of the trace (or never does, as exit_group).
    thread: the kernel's id of the thread that made it. time_ns: time.monotonic_ns() when it began.
    """

    name: str
    args: tuple[int, ...]
    result: int | None
    thread: int
    time_ns: int

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{argument:#x}' for argument in self.args)}) = {self.result}"


@dataclass(slots=True)
class Trace:
    """What was seen.

    calls: in the order in which they began, over all threads.
    exit_status: as subprocess's returncode; None while the process lives.
    error: the traceback, when `function` raised.
    killed_before: the call at which `kill_at` struck. It had no effect, and is not among `calls`.
    """

    calls: list[Call] = field(default_factory=list)
    exit_status: int | None = None
    error: str | None = None
    killed_before: Call | None = None

    @property
    def killed(self) -> bool:
        return self.killed_before is not None

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    def __str__(self) -> str:
        lines = [f"{index:5} {call}" for index, call in enumerate(self.calls)]
        if self.killed_before is not None:
            lines.append(f"{len(lines):5} killed before {self.killed_before}")
        return "\n".join([*lines, f"exit status {self.exit_status}", *filter(None, [self.error])])


def trace(
    function: Callable[..., object], *args: object, kill_at: int | None = None, timeout: float | None = 60.0
) -> Trace:
    """Run `function(*args)` in a forked child and record its system calls, from its first instruction to its return.

    The child exits with 0, or with 1 when `function` raises; then `Trace.error` has the traceback.
    kill_at: the child gets SIGKILL at the entry of the call that would be `calls[kill_at]`, which takes no effect.
    A sweep goes up from 0 until a run is not killed: it has then struck as often as that run has calls, provided that
    `function` makes the same calls each time. So import beforehand what it needs; garbage collection is off in the
    child, and its allocators have some MiB before they ask the kernel. Threads are counted in the order of their
    stops, which is the scheduler's choice.
    What the child has to tell before it dies goes through a pipe, which costs write calls (and nobody reads it
    meanwhile, so 64 KiB at most), or through an `mmap.mmap(-1, size)` made beforehand, which costs none.
    Blocks: until the child has ended. Processes that `function` forks are neither traced nor waited for.
    Raises: TimeoutError when the child still ran after `timeout` seconds (it is killed); OSError where this machine
    does not allow ptrace.
    """
    go, errors = os.pipe(), os.pipe()
    pid = _fork()
    if pid == 0:
        os.close(go[1])
        os.close(errors[0])
        _run_child(function, args, go[0], errors[1])
    os.close(go[0])
    os.close(errors[1])
    result = Trace()
    tracer = _Tracer(pid, result, kill_at=kill_at, on_stopped=lambda: os.write(go[1], b"g"))
    try:
        with futures.ThreadPoolExecutor(1) as pool:
            following = pool.submit(tracer.run)
            try:
                late = bool(futures.wait([following], timeout).not_done)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # reaped below, so the id is still its own
    finally:
        os.close(go[1])
        result.error = _read_and_close(errors[0])
        with contextlib.suppress(ChildProcessError):  # SIGCHLD is ignored in this process
            os.waitpid(pid, 0)
    following.result()
    if late:
        last = "; ".join(str(call) for call in result.calls[-5:])
        raise TimeoutError(f"{function} still ran after {timeout} s and {len(result.calls)} calls, the last: {last}")
    return result


@contextlib.contextmanager
def attached(pid: int) -> Iterator[Trace]:
    """Record the system calls of all threads of a running process for as long as the block runs.

    `calls` grows while the block runs, and holds the calls that began meanwhile: not the one a thread was in at the
    start, although the kernel begins that again. At the end the process goes on untraced; if it ended within the
    block, `exit_status` says how, and it is still to be reaped by its parent. But not within the block: whoever waits
    in this process for a traced one is given its stops (fact 4); `os.pidfd_open` tells its end.
    Raises: OSError when the process is not there, or is not ours to trace (kernel.yama.ptrace_scope may demand a
    descendant of this process).
    """
    result = Trace()
    with _following(pid, result):
        yield result


def observe(pid: int, seconds: float) -> Trace:
    """Record the system calls of a running process for `seconds`, or until it ends. Otherwise as `attached`."""
    result = Trace()
    with _following(pid, result) as following:
        futures.wait([following], seconds)
    return result


@contextlib.contextmanager
def _following(pid: int, result: Trace) -> Iterator[futures.Future[None]]:
    stopped = threading.Event()
    tracer = _Tracer(pid, result, on_stopped=stopped.set, bell=_Bell())
    with futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(tracer.run)
        following.add_done_callback(lambda _: stopped.set())  # or a tracer that failed would be waited for
        try:
            stopped.wait()
            yield following
        finally:
            tracer.finish()
    following.result()


class _Bell:
    """Wakes a tracer, which waits for children and nothing else: a child of its that only waits, until it is killed.

    The lock is held where it is killed and reaped, so that its id is never somebody else's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rung = False
        self.pid: int | None = None

    def hang(self) -> None:
        """In the tracer's thread, whose child it has to be."""
        with self._lock:
            self.pid = _fork_waiting()
            if self._rung:
                os.kill(self.pid, signal.SIGKILL)

    def ring(self) -> None:
        with self._lock:
            self._rung = True
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)

    def take_down(self) -> None:
        with self._lock:
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, _OURS_ONLY)
                self.pid = None


class _Tracer:
    """Seizes a process, sees each of its stops and lets it go on, all in the one thread that calls `run`.

    Invariants: `_threads` holds those that are to be let go at the end; `_unstopped` those that were interrupted and
    have not stopped since; `_interrupted_at` where they then stood, until their next call; `_pending` the recorded
    calls that have not returned.
    """

    def __init__(
        self,
        pid: int,
        result: Trace,
        *,
        on_stopped: Callable[[], object],
        kill_at: int | None = None,
        bell: _Bell | None = None,
    ) -> None:
        self._pid = pid
        self._result = result
        self._on_stopped = on_stopped
        self._kill_at = kill_at
        self._bell = bell
        self._recording = bell is not None  # otherwise from one mark to the other
        self._leaving = False
        self._threads: set[int] = set()
        self._unstopped: set[int] = set()
        self._interrupted_at: dict[int, tuple[int, int]] = {}
        self._pending: dict[int, Call] = {}

    def run(self) -> None:
        # Signals are for the threads of the program; and the bell inherits this mask, so only SIGKILL ends it.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        with contextlib.ExitStack() as stack:
            if self._bell is not None:
                stack.callback(self._bell.take_down)
                self._bell.hang()
            self._seize()
            self._follow()

    def finish(self) -> None:
        """From another thread: end the trace, let the process go."""
        if self._bell is not None:
            self._bell.ring()

    def _seize(self) -> None:
        """Seize every thread there is, looking again until there is no new one."""
        while new := _threads_of(self._pid) - self._threads:
            for thread in new:
                self._threads.add(thread)
                self._seize_thread(thread)

    def _seize_thread(self, thread: int) -> None:
        try:
            ptrace.seize(thread)
        except ProcessLookupError:
            if thread == self._pid:
                raise
        except PermissionError as error:
            # Any other thread: the kernel was faster, and seized what a seized thread started; or it is dead.
            if thread == self._pid:
                why = "the process is dead, or traced already, or not ours (see also kernel.yama.ptrace_scope)"
                raise PermissionError(error.errno, f"ptrace is refused: {why}") from None
        else:
            self._unstopped.add(thread)
            ptrace.interrupt(thread)

    def _follow(self) -> None:
        """See stop after stop until the process has ended, or every thread has been let go."""
        while self._threads:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WSTOPPED | os.WNOWAIT | _OURS_ONLY)
            except ChildProcessError:
                return  # a thread was told of by its creator only after it had been let go
            assert info is not None
            if info.si_code == os.CLD_TRAPPED:
                self._see_stop(info.si_pid)
            elif info.si_pid == self._pid:
                self._see_end(info)
                return
            elif self._bell is not None and info.si_pid == self._bell.pid:
                self._leave(self._bell)
            else:
                os.waitpid(info.si_pid, _OURS_ONLY)
                self._forget(info.si_pid)

    def _leave(self, bell: _Bell) -> None:
        """Only a stopped tracee can be let go: interrupt each, and let it go at its next stop."""
        bell.take_down()
        self._leaving = True
        self._recording = False
        for thread in tuple(self._threads):
            if not ptrace.interrupt(thread):
                self._forget(thread)
        # The bell may be seen before the end of the process, although it came later.
        with contextlib.suppress(ChildProcessError):
            self._see_end(os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT | _OURS_ONLY))

    def _see_end(self, info: os.waitid_result | None) -> None:
        """The kernel tells it once all other threads are gone. Reaping is for the parent (fact 3)."""
        if info is not None and info.si_code != os.CLD_TRAPPED:  # stops of a tracee are told even when not asked for
            self._result.exit_status = info.si_status if info.si_code == os.CLD_EXITED else -info.si_status

    def _forget(self, thread: int) -> None:
        self._threads.discard(thread)
        self._pending.pop(thread, None)
        self._see_first_stop(thread)

    def _see_stop(self, thread: int) -> None:
        # Takes a stop and nothing else: if the process was killed in between, its end is not taken from its parent.
        stop = os.waitid(os.P_PID, thread, os.WSTOPPED | os.WNOHANG | _OURS_ONLY)
        if stop is None:
            return
        self._threads.add(thread)
        self._see_first_stop(thread)  # of whatever kind: any stop takes back the interruption that is still to come
        number, event = stop.si_status & 0xFF, stop.si_status >> 8
        if number == ptrace.CALL_STOP:
            self._see_call(thread)
        elif event == ptrace.EVENT_CLONE and (new := ptrace.event_message(thread)) is not None:
            self._threads.add(new)  # now, not at its first stop: whoever is not let go at the end is killed
        self._go_on(thread, number, event)

    def _go_on(self, thread: int, number: int, event: int) -> None:
        passed_on = 0 if event or number == ptrace.CALL_STOP else number  # a signal on its way to the process
        if self._leaving:
            self._forget(thread)
            ptrace.detach(thread, passed_on)
        elif event == ptrace.EVENT_STOP and number in _GROUP_STOPS:
            ptrace.stay_stopped(thread)
        else:
            ptrace.go_on(thread, passed_on)

    def _see_first_stop(self, thread: int) -> None:
        if thread not in self._unstopped:
            return
        self._unstopped.discard(thread)
        if (info := ptrace.call_info(thread)) is not None:
            self._interrupted_at[thread] = (info.instruction, info.stack)
        if not self._unstopped:
            self._on_stopped()

    def _see_call(self, thread: int) -> None:
        info = ptrace.call_info(thread)
        if info is None:
            return
        if info.operation == ptrace.CALL_EXIT:
            call = self._pending.pop(thread, None)
            if call is not None and not self._leaving:  # otherwise it may be our interruption that it returns with
                call.result = info.value
        elif info.operation == ptrace.CALL_ENTRY:
            interrupted_at = self._interrupted_at.pop(thread, None)
            if info.args[0] & 0xFFFFFFFF == _MARK_OPTION and info.args[1] == _MARK_VALUE:
                self._recording = info.args[2] == _MARK_START
            elif self._recording and not _begun_again(info, interrupted_at):
                self._record(thread, info)

    def _record(self, thread: int, info: ptrace.CallInfo) -> None:
        call = Call(call_name(info.value), tuple(info.args), None, thread, time.monotonic_ns())
        if len(self._result.calls) == self._kill_at:
            os.kill(self._pid, signal.SIGKILL)
            self._result.killed_before = call
            self._recording = False
        else:
            self._result.calls.append(call)
            self._pending[thread] = call


def _begun_again(info: ptrace.CallInfo, interrupted_at: tuple[int, int] | None) -> bool:
    """Is this the call that our own interruption made the kernel begin again?

    It comes from where the thread stood: the same stack, and the instruction at which it stood or (where the kernel
    steps back before it stops the thread, as on aarch64) the one after it.
    """
    if interrupted_at is None:
        return False
    instruction, stack = interrupted_at
    return bool(stack == info.stack and 0 <= info.instruction - instruction <= 4)


def _threads_of(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except FileNotFoundError:
        raise ProcessLookupError(f"there is no process {pid}") from None


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 warns when there are other threads (pytest-xdist has one); the child never touches their locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _fork_waiting() -> int:
    """A child that waits for ever, and dies with the thread that forked it.

    Forked below Python's own fork, which is not made for being called beside other threads. It holds no descriptor,
    or somebody would wait in vain for the end of a pipe.
    """
    parent = os.getpid()
    pid = int(_libc.fork())
    if pid == 0:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        while os.getppid() == parent:
            _libc.pause()
        os._exit(0)
    return pid


def _run_child(function: Callable[..., object], args: tuple[object, ...], go: int, errors: int) -> NoReturn:
    status = 1
    try:
        gc.disable()
        _provide_memory()
        if os.read(go, 1):  # nothing comes if the parent is gone
            _call_marked(function, args, errors)
            status = 0
    finally:
        os._exit(status)  # whatever happens, the child (or one that it forked) never returns into the tests


def _call_marked(function: Callable[..., object], args: tuple[object, ...], errors: int) -> None:
    failed = True
    _mark(_MARK_START)
    try:
        function(*args)
        failed = False
    finally:
        _mark(_MARK_END)
        if failed:
            os.write(errors, traceback.format_exc().encode(errors="replace")[-_ERROR_BYTES_MAX:])


def _mark(what: int) -> None:
    _libc.prctl(_MARK_OPTION, _MARK_VALUE, what, 0, 0)


def _provide_memory() -> None:
    """Give both allocators some MiB, and have them keep it, so that no call that is counted is theirs.

    What is free at a fork depends on all that the parent has done before; without this, the count of calls differs
    now and then by an mmap or a brk.
    """
    if hasattr(_libc, "mallopt"):  # glibc
        for option, value in _MALLOC_OPTIONS.items():
            _libc.mallopt(option, value)
    bytes(8 << 20)  # moves the end of the heap once, far; calloc does not touch what the kernel has zeroed
    blocks = [bytes(400) for _ in range(10_000)]
    _pinned.extend(blocks[::500])  # an object in each of Python's arenas keeps it from being given back


def _read_and_close(descriptor: int) -> str | None:
    """What the child has said; without waiting, for a process that it forked may hold the other end open."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, _ERROR_BYTES_MAX).decode(errors="replace") or None
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)

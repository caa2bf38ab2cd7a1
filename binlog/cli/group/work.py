"""`binlog group work`: runs a command for each message, in one or more processes that are members.

Each worker is a forked process with a seat of its own.  The first SIGTERM or Ctrl-C lets each of them finish its
command, and a second one ends the commands.  Workers find the end of a pipe if the parent process dies, and then stop
as after the first signal.

Facts relied on:
- sigwait(3) in the parent, and signal.set_wakeup_fd in a worker, lose no signal.  A handler in Python alone could run
  late: if the signal comes just before a blocking call, only the end of the call runs it.
- execve(2): handlers of signals are reset to the default, ignored and blocked signals stay so.  So workers have
  handlers, which do nothing, in place of ignoring or blocking signals.
- setpgid(2): a command in a process group of its own gets no Ctrl-C from the terminal.
- signal(7): two pending signals of one kind are one.  So the second one is sent on as another kind.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NoReturn

import click

from binlog.cli.exits import CommandError, ExitCode, Signalled, print_error, run
from binlog.cli.group.options import name_argument, opened_member
from binlog.cli.options import directory_argument, json_option, seconds_from
from binlog.cli.output import write_line
from binlog.cli.records import object_line
from binlog.consumers import ConsumerGroup, Item
from binlog.errors import ClosedError, LeaseLostError

# sysexits.h: EX_DATAERR and EX_TEMPFAIL.
_REJECTED = 65
_PROCESSES_MAX = 64
_STOPPING = (signal.SIGINT, signal.SIGTERM)
_AT_ONCE = signal.SIGUSR1
_OF_WORKERS = (*_STOPPING, _AT_ONCE)
_SIGNALS_READ = 64
_OWN_VARIABLES = ("BINLOG_KEY", "BINLOG_SEQUENCE", "BINLOG_DELIVERY", "BINLOG_TOKEN")


@click.command("work", short_help="Run a command for each message.")
@directory_argument
@name_argument
@click.argument("command_line", metavar="-- COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "-P",
    "--processes",
    "count",
    type=click.IntRange(1, _PROCESSES_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Run up to N commands at the same time.",
)
@click.option(
    "--timeout",
    callback=seconds_from,
    metavar="TIME",
    help="End when no message has come for this time: 0, 30s. By default, wait forever.",
)
@click.option(
    "--lease",
    callback=seconds_from,
    metavar="TIME",
    help="Give a message to another member after this time, even if its command is still running.",
)
@json_option("Print a JSON object for each message that a command ended: token, sequence, delivery, code, what.")
def work(
    directory: str,
    name: str,
    command_line: tuple[str, ...],
    count: int,
    timeout: float | None,
    lease: float | None,
    as_json: bool,
) -> ExitCode:
    """Run COMMAND for each message that this member of the consumer group NAME of the log in DIR gets.

    The command finds the body on standard input, and in its environment BINLOG_KEY (not set without a key, or if the
    key has a NUL byte), BINLOG_SEQUENCE, BINLOG_DELIVERY and BINLOG_TOKEN. Its exit code says what becomes of the
    message: 0: done; 65: a dead letter; 75, any other code, or a signal: delivered again after a while, or a dead
    letter if that was the last delivery.

    After SIGTERM or Ctrl-C, the workers wait until their running commands have ended, and then leave the group. A
    second signal kills the commands, and their messages go back to the group. In either case, 'binlog group work' then
    ends as if the first signal had killed it.
    """
    if shutil.which(command_line[0]) is None:
        raise CommandError(f"{command_line[0]}: there is no such command", ExitCode.USAGE)

    # Opened here first, so that an error is reported once.
    with opened_member(directory, name, lease=lease):
        pass

    def work_until_stopped(alive_fd: int) -> None:
        worker = _Worker(command_line, timeout=timeout, as_json=as_json)
        worker.listen(alive_fd)
        with opened_member(directory, name, lease=lease) as group:
            worker.work(group)

    return _Pool().run(work_until_stopped, count)


class _Pool:
    """The worker processes.  signals: those that this process got, in order."""

    def __init__(self) -> None:
        self.signals: list[signal.Signals] = []
        self._workers: set[int] = set()

    def run(self, work: Callable[[int], None], count: int) -> ExitCode:
        """Run workers until all have ended, and return the exit code of one that failed.

        work: is called in each worker process, with a descriptor whose input ends when this process dies.
        If a worker fails, the others are stopped.  Raises: KeyboardInterrupt, Signalled after a signal.
        """
        alive_fd, end_fd = os.pipe()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (*_STOPPING, signal.SIGCHLD))
        try:
            for _ in range(count):
                pid = os.fork()
                if not pid:
                    os.close(end_fd)
                    _be_worker(lambda: work(alive_fd), mask)
                self._workers.add(pid)
            os.close(alive_fd)
            code = self._wait()
        finally:
            os.close(end_fd)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if self.signals and self.signals[0] == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signals:
            raise Signalled(self.signals[0])
        return code

    def _wait(self) -> ExitCode:
        code = ExitCode.OK
        while self._workers:
            number = signal.sigwait((*_STOPPING, signal.SIGCHLD))
            if number == signal.SIGCHLD:
                code = self._reap(code)
            else:
                self._send(_AT_ONCE if self.signals else signal.SIGTERM)
                self.signals.append(signal.Signals(number))
        return code

    def _reap(self, code: ExitCode) -> ExitCode:
        """Take note of the workers that ended; return the exit code of the first one that failed."""
        for pid in sorted(self._workers):
            found, status = os.waitpid(pid, os.WNOHANG)
            if not found:
                continue
            self._workers.discard(pid)
            ended = os.waitstatus_to_exitcode(status)
            if ended and not code and not self.signals:
                if ended < 0:
                    print_error(f"worker {pid} was killed by {_signal_name(-ended)}")
                code = ExitCode(ended) if ended in list(ExitCode) else ExitCode.FAILED
                self._send(signal.SIGTERM)
        return code

    def _send(self, number: int) -> None:
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _be_worker(work: Callable[[], None], mask: set[int | signal.Signals]) -> NoReturn:
    """Run a worker in a forked process.  mask: the blocked signals of the parent."""
    code = int(ExitCode.FAILED)
    try:
        for number in _OF_WORKERS:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = run(work)
        sys.stdout.flush()
    finally:
        # Not sys.exit: exit handlers belong to the parent.
        os._exit(code)


class _Worker:
    """Runs the command for one message after the other.  A thread of its own stops it."""

    def __init__(self, command_line: tuple[str, ...], *, timeout: float | None, as_json: bool) -> None:
        self._command_line = command_line
        self._timeout = timeout
        self._as_json = as_json
        self._mutex = threading.Lock()  # of all below
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: ConsumerGroup | None = None  # while it waits for a message
        self._is_stopping = self._is_closing = self._ends_at_once = False
        self._closed = threading.Event()

    def listen(self, alive_fd: int) -> None:
        """Stop when a signal comes, or when the input of a descriptor ends."""
        signals_fd, wake_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_fd)
        threading.Thread(target=self._listen, args=(signals_fd, alive_fd), daemon=True).start()

    def _listen(self, signals_fd: int, alive_fd: int) -> None:
        poll = select.poll()
        for fd in (signals_fd, alive_fd):
            poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == alive_fd:
                    poll.unregister(alive_fd)
                    self._stop(at_once=False)
                    continue
                for number in os.read(signals_fd, _SIGNALS_READ):
                    # The terminal sends SIGINT to the parent too, which sends another one.
                    if number != signal.SIGINT:
                        self._stop(at_once=number == _AT_ONCE or self._is_stopping)

    def _stop(self, *, at_once: bool) -> None:
        with self._mutex:
            self._is_stopping = True
            self._ends_at_once = self._ends_at_once or at_once
            self._kill()
            group = self._waiting
            self._is_closing = self._is_closing or group is not None
        if group is not None:
            try:
                group.close()  # gives back a message that comes at this moment
            finally:
                self._closed.set()

    def _kill(self) -> None:
        """Kill the command with all processes that it started, if the worker is to end at once."""
        process = self._process
        if self._ends_at_once and process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def work(self, group: ConsumerGroup) -> None:
        """Handle messages until the worker is stopped, or none came in time."""
        # Nothing is assigned ahead: a message must not wait until a command has ended, while other workers are idle.
        items = iter(group.consume(timeout=self._timeout, prefetch=0))
        while (item := self._next(group, items)) is not None:
            self._handle(item)
        if self._is_closing:
            self._closed.wait()

    def _next(self, group: ConsumerGroup, items: Iterator[Item]) -> Item | None:
        with self._mutex:
            if self._is_stopping:
                return None
            self._waiting = group
        try:
            item = next(items, None)
        except ClosedError:
            if not self._is_closing:
                raise
            return None
        with self._mutex:
            self._waiting = None
            return None if self._is_closing else item

    def _handle(self, item: Item) -> None:
        code = self._run(item)
        if self._ends_at_once:
            item.back()
            return
        what = "ack" if code == 0 else "reject" if code == _REJECTED else "nack"
        try:
            if what == "ack":
                item.ack()
            elif what == "reject":
                item.reject(error=_reason(code))
            else:
                item.nack(error=_reason(code))
        except LeaseLostError as error:
            print_error(str(error))
            what = "lost"
        if self._as_json:
            facts = {"token": item.token, "sequence": item.sequence, "delivery": item.delivery}
            write_line(object_line({**facts, "code": code, "what": what}))

    def _run(self, item: Item) -> int:
        """Run the command, and return its exit code, -N for signal N.  Raises: CommandError."""
        environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
        environment |= {
            "BINLOG_SEQUENCE": str(item.sequence),
            "BINLOG_DELIVERY": str(item.delivery),
            "BINLOG_TOKEN": item.token,
        }
        if item.key is not None and b"\0" not in item.key:
            environment["BINLOG_KEY"] = os.fsdecode(item.key)
        try:
            process = subprocess.Popen(self._command_line, stdin=subprocess.PIPE, env=environment, process_group=0)
        except OSError as error:
            item.back()
            raise CommandError(f"{self._command_line[0]}: {error.strerror}", ExitCode.FAILED) from error
        with process:
            with self._mutex:
                self._process = process
                self._kill()
            process.communicate(item.data)  # a command need not read it
            with self._mutex:
                self._process = None
        return process.returncode


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal


def _reason(code: int) -> str:
    return f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}"


COMMANDS = (work,)

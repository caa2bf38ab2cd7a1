"""`binlog group work`: runs a command for each message, in one or more processes that are members.

Each worker is a forked process with a seat of its own.  The first SIGTERM or Ctrl-C lets each of them finish its
command, and a second one ends the commands.  Workers find the end of a pipe if the parent process dies, and then stop
as after the first signal.

Facts relied on:
- execve(2): handlers of signals are reset to the default, ignored signals stay ignored.  So workers have a handler for
  Ctrl-C, which does nothing, in place of ignoring it.
- setpgid(2): a command in a process group of its own gets no Ctrl-C from the terminal.
- signal(7): two pending signals of one kind are one.  So the second one is sent on as another kind.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import NoReturn

import click

from binlog.cli.exits import CommandError, ExitCode, Signalled, print_error, run
from binlog.cli.group.options import name_argument, opened_member
from binlog.cli.options import directory_argument, json_option, seconds_from
from binlog.cli.output import write_line
from binlog.cli.records import object_line
from binlog.consumers import ConsumerGroup, Item
from binlog.errors import LeaseLostError

# sysexits.h: EX_DATAERR and EX_TEMPFAIL.
_REJECTED = 65
_PROCESSES_MAX = 64
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
_AT_ONCE = signal.SIGUSR1
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
    help="End when no message came for this time: 0, 30s. By default, wait for ever.",
)
@click.option(
    "--lease",
    callback=seconds_from,
    metavar="TIME",
    help="Give a message to another member after this time, although its command still runs.",
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
    message: 0: done; 65: a dead letter; 75 and all others, or a signal: delivered again after a while, or a dead letter
    if that was the last delivery.

    SIGTERM or Ctrl-C: each command that runs is finished, and then the workers leave the group. A second signal kills
    the commands, and their messages go back to the group. In either case the command then ends by that signal.
    """
    if shutil.which(command_line[0]) is None:
        raise CommandError(f"{command_line[0]}: there is no such command", ExitCode.USAGE)

    def open_worker() -> Callable[[], object]:
        worker = _Worker(command_line, timeout=timeout, as_json=as_json)
        for number in _SIGNALS:
            signal.signal(number, worker.on_signal)

        def work_until_stopped() -> None:
            with opened_member(directory, name, lease=lease) as group:
                worker.work(group)

        return work_until_stopped

    # Opened here first, so that an error is reported once.
    with opened_member(directory, name, lease=lease):
        pass
    return _Pool().run(open_worker, count)


class _Pool:
    """The worker processes.  signals: those that this process got, in order."""

    def __init__(self) -> None:
        self.signals: list[int] = []
        self._workers: set[int] = set()

    def run(self, open_worker: Callable[[], Callable[[], object]], count: int) -> ExitCode:
        """Run workers until all have ended, and return the exit code of one that failed.

        If one fails, the others are stopped.  Raises: KeyboardInterrupt, Signalled after a signal.
        """
        handled = (signal.SIGINT, signal.SIGTERM)
        before = [(number, signal.getsignal(number)) for number in handled]
        alive_fd, end_fd = os.pipe()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            for _ in range(count):
                pid = os.fork()
                if not pid:
                    os.close(end_fd)
                    _work(open_worker, alive_fd, blocked)
                self._workers.add(pid)
            for number in handled:
                signal.signal(number, self._on_signal)
        finally:
            os.close(alive_fd)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        try:
            code = self._wait()
        finally:
            os.close(end_fd)
            for number, handler in before:
                signal.signal(number, handler)
        if self.signals[:1] == [signal.SIGINT]:
            raise KeyboardInterrupt
        if self.signals:
            raise Signalled(signal.Signals(self.signals[0]))
        return code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._send(_AT_ONCE if self.signals else signal.SIGTERM)
        self.signals.append(number)

    def _send(self, number: int) -> None:
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _wait(self) -> ExitCode:
        code = ExitCode.OK
        while self._workers:
            pid, status = os.wait()
            self._workers.discard(pid)
            ended = os.waitstatus_to_exitcode(status)
            if ended and not code and not self.signals:
                if ended < 0:
                    print_error(f"worker {pid} was killed by {_signal_name(-ended)}")
                code = ExitCode(ended) if ended in list(ExitCode) else ExitCode.FAILED
                self._send(signal.SIGTERM)
        return code


def _work(open_worker: Callable[[], Callable[[], object]], alive_fd: int, mask: set[int | signal.Signals]) -> NoReturn:
    """Be a worker process.  alive_fd: finds the end of its input when the parent has died."""
    code = int(ExitCode.FAILED)
    try:
        work_until_stopped = open_worker()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        threading.Thread(target=_stop_with_parent, args=(alive_fd,), daemon=True).start()
        code = run(work_until_stopped)
        sys.stdout.flush()
    finally:
        # Not sys.exit: exit handlers belong to the parent.
        os._exit(code)


def _stop_with_parent(alive_fd: int) -> None:
    while os.read(alive_fd, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


class _StoppedError(BaseException):
    """A signal came while the worker waited for a message.  Not an Exception, so that nothing takes it for an error."""


class _Worker:
    """Runs the command for one message after the other."""

    def __init__(self, command_line: tuple[str, ...], *, timeout: float | None, as_json: bool) -> None:
        self._command_line = command_line
        self._timeout = timeout
        self._as_json = as_json
        self._process: subprocess.Popen[bytes] | None = None
        self._is_waiting = self._is_stopping = self._ends_at_once = False

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Stop, or end at once; raise if the worker waits for a message."""
        if number == signal.SIGINT:
            return  # the terminal sends it to the parent too, which sends another one
        if number == _AT_ONCE or self._is_stopping:
            self._ends_at_once = True
            self._kill()
        self._is_stopping = True
        if self._is_waiting:
            self._is_waiting = False
            raise _StoppedError

    def work(self, group: ConsumerGroup) -> None:
        """Handle messages until a signal comes, or none came in time."""
        # Nothing is assigned ahead: a message must not wait until a command has ended, while other workers are idle.
        items = group.consume(timeout=self._timeout, prefetch=0)
        try:
            while (item := self._next(items)) is not None:
                self._handle(item)
        except _StoppedError:
            return  # closing the group gives back a message that came meanwhile

    def _next(self, items: Iterator[Item]) -> Item | None:
        self._is_waiting = True
        try:
            return None if self._is_stopping else next(items, None)
        finally:
            self._is_waiting = False

    def _handle(self, item: Item) -> None:
        code = self._run(item)
        if self._ends_at_once:
            item.back()
            raise _StoppedError
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
            facts = {"token": str(item.token), "sequence": item.sequence, "delivery": item.delivery}
            write_line(object_line({**facts, "code": code, "what": what}))

    def _run(self, item: Item) -> int:
        """Run the command, and return its exit code, -N for signal N.  Raises: CommandError."""
        environment = {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
        environment |= {
            "BINLOG_SEQUENCE": str(item.sequence),
            "BINLOG_DELIVERY": str(item.delivery),
            "BINLOG_TOKEN": str(item.token),
        }
        if item.key is not None and b"\0" not in item.key:
            environment["BINLOG_KEY"] = os.fsdecode(item.key)
        try:
            process = subprocess.Popen(self._command_line, stdin=subprocess.PIPE, env=environment, process_group=0)
        except OSError as error:
            item.back()
            text = f"{self._command_line[0]}: {error.strerror}"
            raise CommandError(text, ExitCode.FAILED) from error
        with process:
            self._process = process
            if self._ends_at_once:  # the signal came before this line
                self._kill()
            process.communicate(item.data)  # a command need not read it
            self._process = None
        return process.returncode

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # a real-time signal


def _reason(code: int) -> str:
    return f"killed by {_signal_name(-code)}" if code < 0 else f"exit code {code}"


COMMANDS = (work,)

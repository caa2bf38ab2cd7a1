"""`binlog group take`: hands messages to the program on its standard input and output, which ends them.

So a shell script, or a program in any language, is a worker: it starts this command with two pipes, reads a message,
and writes a line that says what became of it.  The pipe is the lease: if the program dies, this command finds the end
of its input, and gives the message back.
"""

from __future__ import annotations

import queue
import threading

import click

from binlog import ClosedError, parse_seconds
from binlog.cli.exits import CommandError, ExitCode, ended_by_sigterm
from binlog.cli.group.messages import MESSAGE_TEXT, json_line, message_object
from binlog.cli.group.options import name_argument, opened_member, wrong_usage
from binlog.cli.options import directory_argument, json_option, seconds_from
from binlog.cli.output import write
from binlog.cli.records import Form, form_of, lines, null_option
from binlog.consumers import ConsumerGroup, Item

_INPUT = 0


@click.command("take", short_help="Hand a message to a script, which ends it.")
@directory_argument
@name_argument
@click.option("-f", "--follow", is_flag=True, help="Continue with the next message after each answer.")
@click.option(
    "--timeout",
    callback=seconds_from,
    metavar="TIME",
    help="Exit with 1 if no message comes within this time: 0, 30s. By default, wait forever.",
)
@click.option(
    "--lease",
    callback=seconds_from,
    metavar="TIME",
    help="Give the message to another member after this time, although this command still has it.",
)
@null_option("End the token and the message with a NUL byte each instead of a newline.")
@json_option(f"Print a JSON object for each message: token, sequence, ref, delivery, {MESSAGE_TEXT}.")
def take(
    directory: str,
    name: str,
    follow: bool,
    timeout: float | None,
    lease: float | None,
    as_null: bool,
    as_json: bool,
) -> None:
    """Take a message from the consumer group NAME of the log in DIR, print it, and hold it while the input is open.

    Prints a line with the token, and then the body with a newline. A body with newlines takes several lines; use --json
    or --null for those. The message is held while standard input is open; when the input ends, it goes back to the
    group, and the delivery is not counted. With --lease, it is held at most that long; the end of the lease counts as a
    failure.

    A line on standard input ends the delivery: 'ack'; 'nack', which may be followed by a time after which the message
    is delivered again, and by a reason ('nack 30s no answer'); 'reject', which may be followed by a reason, and makes
    the message a dead letter; or 'back'. Any other process can end it too, with 'binlog group ack DIR NAME TOKEN'.
    """
    form = form_of(as_json=as_json, as_null=as_null)
    with opened_member(directory, name, lease=lease) as group, ended_by_sigterm():
        _hand_out(group, form, timeout=timeout, follow=follow)


class _Answers:
    """The lines of the standard input, read by a thread.  If it ends during a wait for a message, that ends too.

    is_waiting: whether the command waits for a message.
    """

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group
        self.is_waiting = False
        self._has_ended = False
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name="binlog-answers", daemon=True)

    def begin(self) -> None:
        """Begin to read, unless that was done."""
        if self._thread.ident is None:
            self._thread.start()

    def _read(self) -> None:
        with open(_INPUT, "rb", closefd=False) as lines_of_input:
            for line in lines_of_input:
                self._lines.put(line)
        self._lines.put(b"")
        self._has_ended = True
        if self.is_waiting and self.are_over:
            self._group.close()

    @property
    def are_over(self) -> bool:
        """Whether the input has ended, and each line was read."""
        return self._has_ended and self._lines.qsize() <= 1

    def next(self) -> bytes:
        """Return the next line, nothing at the end; blocks."""
        self.begin()
        return self._lines.get()


def _hand_out(group: ConsumerGroup, form: Form, *, timeout: float | None, follow: bool) -> None:
    answers = _Answers(group)
    while True:
        if follow:
            answers.begin()
        answers.is_waiting = True
        if answers.are_over:
            return
        try:
            item = group.get(timeout=timeout)
        except ClosedError:
            return  # the input has ended
        answers.is_waiting = False
        if item is None:
            raise CommandError(f"{group.name}: no message came in time", ExitCode.FAILED)
        write(_shown(item, form))
        if not _end(item, answers) or not follow:
            return


def _shown(item: Item, form: Form) -> bytes:
    if form is not Form.JSON:
        return lines([item.token.encode(), item.data], form)
    head = {"token": item.token, "sequence": item.sequence, "ref": str(item.ref), "delivery": item.delivery}
    return json_line({**head, **message_object(item.data, item.key, item.headers)})


def _end(item: Item, answers: _Answers) -> bool:
    """End the delivery as the next line says; return False at the end of the input: closing gives the message back.

    Raises: CommandError for any other line; LeaseLostError.
    """
    line = answers.next()
    if not line:
        return False
    what, _, rest = line.decode("utf-8", "backslashreplace").strip().partition(" ")
    match what:
        case "ack" if not rest:
            item.ack()
        case "nack":
            time, _, error = rest.strip().partition(" ")
            with wrong_usage():
                delay = parse_seconds(time) if time else None
            item.nack(delay=delay, error=error)
        case "reject":
            item.reject(error=rest)
        case "back" if not rest:
            item.back()
        case _:
            text = "is no answer: write 'ack', 'nack', 'nack TIME REASON', 'reject REASON' or 'back'"
            raise CommandError(f"{line.decode(errors='backslashreplace').strip()!r} {text}", ExitCode.USAGE)
    return True


COMMANDS = (take,)

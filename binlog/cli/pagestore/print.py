"""`binlog pagestore print`: print the messages of a queue."""

from __future__ import annotations

import click

from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write
from binlog.cli.records import content_json, lines
from binlog.pagestore import Message, read_queue


@click.command("print", short_help="Print the messages of a queue.")
@directory_argument
@click.argument("queue")
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Print at most N messages.")
@json_option(
    'Print a JSON object for each message: key, priority, delivery_count, expiration, and the message as "text", or as '
    '"base64" if it is not UTF-8.'
)
def command(directory: str, queue: str, count: int | None, as_json: bool) -> None:
    """Print the messages of a queue of the store in DIR, one per line, in the order of their keys.

    Prints all of them, also those that a prepared transaction puts or gets, and removes none. A message that contains a
    newline takes several lines; --json keeps it in one.
    """
    with opening():
        messages = read_queue(directory, queue, count)
    write("".join(map(_json_line, messages)).encode() if as_json else lines(each.body for each in messages))


def _json_line(message: Message) -> str:
    _, key, body, priority, delivery_count, expiration = message
    values = f'"key":{key},"priority":{priority},"delivery_count":{delivery_count},"expiration":{expiration}'
    return f"{{{values},{content_json(body)}}}\n"

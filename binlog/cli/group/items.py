"""`binlog group ack`, `nack`, `reject` and `retry`: ends deliveries by their tokens, and ends waits."""

from __future__ import annotations

import os

import click

from binlog.cli.amounts import things_text
from binlog.cli.group.options import name_argument, opened_control, token_argument, wrong_usage
from binlog.cli.options import directory_argument, json_option, seconds_from
from binlog.cli.output import write_line
from binlog.cli.records import object_line

_JSON = 'Print {"token":...,"what":...}, once it is durable.'
_ERROR_HELP = "Why; kept with the message, up to 200 bytes."


def _print(token: str, what: str, *, as_json: bool) -> None:
    if as_json:
        write_line(object_line({"token": token, "what": what}))


@click.command("ack", short_help="Acknowledge a delivery by its token.")
@directory_argument
@name_argument
@token_argument
@json_option(_JSON)
def ack(directory: str, name: str, token: str, as_json: bool) -> None:
    """Acknowledge the delivery TOKEN of the consumer group NAME of the log in DIR: the message is done.

    Durable when the command ends. Exits with 1 if the delivery does not count any more, because another member has the
    message, or because it is done.
    """
    with opened_control(directory, name) as control, wrong_usage():
        control.ack(token)
    _print(token, "ack", as_json=as_json)


@click.command("nack", short_help="Report that a delivery failed, by its token.")
@directory_argument
@name_argument
@token_argument
@click.option(
    "--delay",
    callback=seconds_from,
    metavar="TIME",
    help="Deliver the message again after this time: 0, 30s, 5m. By default, as the group's settings say.",
)
@click.option("--error", default="", metavar="TEXT", help=_ERROR_HELP)
@json_option(_JSON)
def nack(directory: str, name: str, token: str, delay: float | None, error: str, as_json: bool) -> None:
    """Report that the delivery TOKEN of the consumer group NAME of the log in DIR failed.

    The message is delivered again, or becomes a dead letter if this was its last delivery. Exits with 1 if the
    delivery does not count any more.
    """
    with opened_control(directory, name) as control, wrong_usage():
        control.nack(token, delay=delay, error=error)
    _print(token, "nack", as_json=as_json)


@click.command("reject", short_help="Make a message a dead letter, by its token.")
@directory_argument
@name_argument
@token_argument
@click.option("--error", default="", metavar="TEXT", help=_ERROR_HELP)
@json_option(_JSON)
def reject(directory: str, name: str, token: str, error: str, as_json: bool) -> None:
    """Make the message of the delivery TOKEN of the consumer group NAME of the log in DIR a dead letter.

    The next member that asks for messages writes it to the dead letters. Exits with 1 if the delivery does not count
    any more.
    """
    with opened_control(directory, name) as control, wrong_usage():
        control.reject(token, error=error)
    _print(token, "reject", as_json=as_json)


@click.command("retry", short_help="Deliver now the messages that wait for a retry.")
@directory_argument
@name_argument
@click.argument("sequences", metavar="[SEQUENCE]...", nargs=-1, type=click.IntRange(min=0))
@click.option("--all", "is_all", is_flag=True, help="All messages that wait.")
@click.option("--key", metavar="K", help="Only messages with this key.")
@json_option('Print {"count":N}, with the count of the messages.')
def retry(directory: str, name: str, sequences: tuple[int, ...], is_all: bool, key: str | None, as_json: bool) -> None:
    """Deliver waiting messages of the consumer group NAME of the log in DIR now, before their retry or their due time.

    Give the messages' sequences, or --key, or both, or --all. 'binlog group peek --delayed' shows the messages.
    'binlog group dead retry' delivers dead letters again.
    """
    if is_all == bool(sequences or key is not None):
        raise click.UsageError("give either --all, or sequences or --key")
    with opened_control(directory, name) as control:
        # fsencode gives the bytes of the argument as they were passed, whatever the locale.
        count = control.retry_now(sequences=sequences or None, key=None if key is None else os.fsencode(key))
    if as_json:
        write_line(object_line({"count": count}))
    else:
        write_line(f"delivering {things_text(count, 'message')} now")


COMMANDS = (ack, nack, reject, retry)

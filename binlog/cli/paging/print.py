"""`binlog paging print`: print the messages in pages."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import click

from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write
from binlog.cli.records import content_json, lines
from binlog.paging import read_delivery_counts, read_pages, stat_paging
from binlog.queue import DEAD_LETTER_ADDRESS, QUEUE_ADDRESS

_AT_ONCE = 256
_Found = tuple[int, int, bytes, int]


@click.command("print", short_help="Print messages.")
@directory_argument
@click.option("--address", metavar="A", help="Print messages of this address; needed if there are several.")
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Print at most N messages.")
@json_option(
    "Print a JSON object for each message: page, number, tx_id (-1 for none), deliveries, and the message as "
    '"text", or as "base64" if it is not UTF-8.'
)
def command(directory: str, address: str | None, count: int | None, as_json: bool) -> None:
    """Print the messages in the pages of an address in DIR, one per line, in order.

    Prints all of them, also those that were acknowledged and those of transactions that were never committed. A message
    that contains a newline takes several lines; --json keeps it in one.
    """
    with opening():
        name = address or _main_address(directory)
        delivery_counts = read_delivery_counts(directory, name) if as_json else {}
        found = islice(read_pages(directory, name), count)
        first = list(islice(found, _AT_ONCE))
    while first:
        write(_json_lines(first, delivery_counts) if as_json else lines(message for _, _, message, _ in first))
        first = list(islice(found, _AT_ONCE))


def _main_address(directory: str) -> str:
    """Return the only address, or the queue's if the other one is that of its dead letters."""
    addresses = [found.address for found in stat_paging(directory).addresses]
    if sorted(addresses) == [QUEUE_ADDRESS, DEAD_LETTER_ADDRESS]:
        return QUEUE_ADDRESS
    if len(addresses) != 1:
        text = f"{directory} has {len(addresses)} addresses; select one with --address"
        raise CommandError(text, ExitCode.CANNOT_OPEN)
    return addresses[0]


def _json_lines(messages: list[_Found], delivery_counts: Mapping[tuple[int, int], int]) -> bytes:
    return "".join(_json_line(each, delivery_counts.get(each[:2], 0)) for each in messages).encode()


def _json_line(found: _Found, delivery_count: int) -> str:
    page_id, number, message, tx_id = found
    head = f'"page":{page_id},"number":{number},"tx_id":{tx_id},"deliveries":{delivery_count}'
    return f"{{{head},{content_json(message)}}}\n"

"""`binlog paging`: inspect pages of messages."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import click

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.commands import OrderedGroup
from binlog.cli.exits import CommandError, ExitCode, opening, print_problems
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write, write_line, write_table
from binlog.cli.records import content_json, lines, object_line
from binlog.paging import AddressStat, PageStat, check_paging, read_delivery_counts, read_pages, stat_paging
from binlog.queue import DEAD_LETTER_ADDRESS, QUEUE_ADDRESS

_PAGES = ("PAGE", "MESSAGES", "BYTES", "ACKED", "DELIVERED", "OF TX", "SIZE")
_AT_ONCE = 256
_Found = tuple[int, int, bytes, int]


@click.group("paging", cls=OrderedGroup, no_args_is_help=False, short_help="Inspect pages, or a queue.")
def command() -> None:
    """Inspect the pages in DIR: those of a queue, of binlog.paging, or of JBoss Messaging.

    All of these commands may run while another process has DIR open, and change nothing.

    Each address has pages, numbered from 1, and each page has messages, numbered from 0. A queue is the address
    'queue'.
    """


@command.command("stat", short_help="Show addresses and their pages.")
@directory_argument
@json_option("Print a JSON object for each address: address, path, layout, and its pages.")
def stat(directory: str, as_json: bool) -> ExitCode:
    """Show each address in DIR and its pages. Reads every page.

    ACKED counts acknowledged messages, DELIVERED those that a consumer has got, OF TX those that were put in a
    transaction, committed or not. A '+' after a page's number means that the page is still open, or that its process
    died before it closed the page. Damage is reported last, and the exit status is then 1.
    """
    with opening():
        stat = stat_paging(directory)
    for address in stat.addresses:
        if as_json:
            write_line(object_line(_as_object(address)))
        else:
            _write_address(address)
    for problem in stat.problems:
        if not as_json:
            write_line(printable(str(problem)))
    return ExitCode.FAILED if stat.problems else ExitCode.OK


def _write_address(address: AddressStat) -> None:
    count = sum(page.message_count for page in address.pages)
    acked = sum(page.acked_count for page in address.pages)
    pages = things_text(len(address.pages), "page")
    write_line(
        f"{printable(address.address)}: {pages}, {things_text(count, 'message')}, {count_text(acked)} acknowledged"
    )
    if address.pages:
        write_table(_PAGES, [_row(page) for page in address.pages])


def _row(page: PageStat) -> tuple[str, ...]:
    return (
        f"{page.page_id}{'' if page.is_closed else '+'}",
        count_text(page.message_count),
        size_text(page.message_bytes),
        count_text(page.acked_count),
        count_text(len(page.deliveries)),
        count_text(sum(page.tx_counts.values())),
        size_text(page.file_bytes),
    )


def _as_object(address: AddressStat) -> dict[str, Any]:
    return {**address._asdict(), "pages": [page._asdict() for page in address.pages]}


@command.command("print", short_help="Print messages.")
@directory_argument
@click.option("--address", metavar="A", help="Print messages of this address; needed if there are several.")
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Print at most N messages.")
@json_option(
    "Print a JSON object for each message: page, number, tx_id (-1 for none), deliveries, and the message as "
    '"text", or as "base64" if it is not UTF-8.'
)
def print_(directory: str, address: str | None, count: int | None, as_json: bool) -> None:
    """Print the messages in the pages of an address in DIR, one per line, in order.

    Prints all of them, including those that were acknowledged and those of transactions that were never committed. A
    message that contains a newline takes several lines; --json keeps it in one.
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


@command.command("check", short_help="Report every problem.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing if there is none.")
def check(directory: str, as_json: bool) -> ExitCode:
    """Check the pages in DIR, and report every problem; repair nothing.

    Reads every message and acknowledgement, and prints a line for each problem: the file, the offset, a description,
    and the rule that is violated. Exits with 1 if there is any. The remains of a crash that the next process cleans up
    are not a problem. Use 'binlog journal check DIR/journal' for the journal beside the pages.
    """
    with opening():
        problems = check_paging(directory)
    return print_problems(problems, as_json=as_json)

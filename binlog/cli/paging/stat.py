"""`binlog paging stat`: which pages there are."""

from __future__ import annotations

from typing import Any

import click

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.records import object_line
from binlog.paging import AddressStat, PageStat, stat_paging

_PAGES = ("PAGE", "MESSAGES", "BYTES", "ACKED", "GIVEN", "OF TX", "SIZE")


@click.command("stat", short_help="Show addresses and their pages.")
@directory_argument
@json_option("Print a JSON object for each address: address, path, layout, and its pages.")
def command(directory: str, as_json: bool) -> ExitCode:
    """Show each address in DIR and its pages, each of which is read.

    ACKED are messages that were acknowledged, GIVEN those that were given to somebody, OF TX those that were put with
    a transaction, whatever became of it.
    '+' behind the number of a page: messages may still be added to it, or its process died before it had ended it.
    What is damaged is told last, and it exits with 1.
    """
    with opening():
        look = stat_paging(directory)
    for address in look.addresses:
        if as_json:
            write_line(object_line(_as_object(address)))
        else:
            _write_address(address)
    for problem in look.problems:
        if not as_json:
            write_line(printable(str(problem)))
    return ExitCode.FAILED if look.problems else ExitCode.OK


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

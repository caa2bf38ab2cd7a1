"""`binlog paging stat`: show addresses and their pages."""

from __future__ import annotations

from typing import Any

import click

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.records import object_line
from binlog.paging import AddressStat, PageStat, stat_paging

_PAGES = ("PAGE", "MESSAGES", "BYTES", "ACKED", "DELIVERED", "OF TX", "SIZE")


@click.command("stat", short_help="Show addresses and their pages.")
@directory_argument
@json_option("Print a JSON object for each address: address, path, layout, and its pages.")
def command(directory: str, as_json: bool) -> ExitCode:
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

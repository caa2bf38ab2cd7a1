"""`binlog pagestore stat`: show the pages and queues of a page store."""

from __future__ import annotations

import click

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write_line, write_table
from binlog.cli.records import object_line
from binlog.pagestore import PageStoreStat, stat_page_store

_NAMES = ("QUEUE", "MESSAGES", "DELIVERED", "INDEX PAGES")


@click.command("stat", short_help="Show pages and queues.")
@directory_argument
@json_option("Print a JSON object: page_bytes, page_count, free_count, generation, record_count, queues, prepared, ...")
def command(directory: str, as_json: bool) -> None:
    """Show the pages and queues of the store in DIR.

    MESSAGES includes those of prepared transactions, which 'binlog pagestore xa' shows. DELIVERED counts those of them
    that were delivered.
    """
    with opening():
        found = stat_page_store(directory)
    if as_json:
        write_line(object_line(_as_object(found)))
        return
    has = f"open in {found.holder or 'a process'}" if found.is_owned else "not open"
    size = size_text(found.page_bytes * found.page_count)
    write_line(
        f"{things_text(found.page_count, 'page')} of {size_text(found.page_bytes)}, {size}, "
        f"{count_text(found.free_count)} free; {has}"
    )
    write_line(
        f"generation {found.generation}, {things_text(found.record_count, 'record')} in the log; "
        f"{things_text(len(found.prepared), 'prepared transaction')}"
    )
    rows = [
        (each.name, count_text(each.message_count), count_text(each.delivered_count), count_text(each.index_pages))
        for each in found.queues
    ]
    write_table(_NAMES, rows, left=_NAMES[:1])


def _as_object(found: PageStoreStat) -> dict[str, object]:
    queues = [queue._asdict() for queue in found.queues]
    return {**found._asdict(), "queues": queues, "prepared": [str(each.xid) for each in found.prepared]}

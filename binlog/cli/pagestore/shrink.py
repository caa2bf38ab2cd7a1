"""`binlog pagestore shrink`: cutting off free pages."""

from __future__ import annotations

import click

from binlog.cli.amounts import things_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument
from binlog.cli.output import write_line
from binlog.pagestore import PageStore, stat_page_store


@click.command("shrink", short_help="Cut off free pages.")
@directory_argument
def command(directory: str) -> None:
    """Cut off the pages of the store in DIR that lie behind the last one in use.

    A process that has the store does that itself (PageStore.shrink); then this exits with 4.
    """
    with opening():
        before = stat_page_store(directory).page_count
        store = PageStore(directory)
    with store:
        count = store.shrink()
    write_line(f"{things_text(count, 'page')} left of {before}")

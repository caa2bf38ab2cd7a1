"""`binlog pagestore shrink`: truncate free pages."""

from __future__ import annotations

import click

from binlog.cli.amounts import things_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument
from binlog.cli.output import write_line
from binlog.pagestore import PageStore, stat_page_store


@click.command("shrink", short_help="Truncate free pages.")
@directory_argument
def command(directory: str) -> None:
    """Truncate the file of pages of the store in DIR after the last page in use.

    If a process has the store open, this exits with 4; that process can do it itself (PageStore.shrink).
    """
    with opening():
        before = stat_page_store(directory).page_count
        store = PageStore(directory)
    with store:
        count = store.shrink()
    write_line(f"{things_text(count, 'page')} left of {before}")

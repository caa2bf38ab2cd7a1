"""`binlog pagestore backup`: copy a page store."""

from __future__ import annotations

import click

from binlog.cli.exits import opening
from binlog.cli.options import directory_argument
from binlog.pagestore import PageStore, stat_page_store


@click.command("backup", short_help="Copy a store to a new folder.")
@directory_argument
@click.argument("to", type=click.Path())
def command(directory: str, to: str) -> None:
    """Copy the page store in DIR to the folder TO, which must be new or empty. The copy can be opened as a store.

    If a process has the store open, this exits with 4; that process can make a backup itself (PageStore.backup).
    """
    with opening():
        stat_page_store(directory)  # so that opening does not create a store
        store = PageStore(directory)
    with store:
        store.backup(to)

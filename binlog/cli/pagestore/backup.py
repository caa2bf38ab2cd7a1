"""`binlog pagestore backup`: a copy of a page store."""

from __future__ import annotations

import click

from binlog.cli.exits import opening
from binlog.cli.options import directory_argument
from binlog.pagestore import PageStore, stat_page_store


@click.command("backup", short_help="Copy a store to a new folder.")
@directory_argument
@click.argument("to", type=click.Path())
def command(directory: str, to: str) -> None:
    """Copy the page store in DIR to the folder TO, which is new or empty, and can then be opened as a store.

    A process that has the store makes its backups itself (PageStore.backup); then this exits with 4.
    """
    with opening():
        stat_page_store(directory)  # a store is not made by this
        store = PageStore(directory)
    with store:
        store.backup(to)

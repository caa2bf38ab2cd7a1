"""`binlog paging`: inspect pages of messages."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class PagingCommands(Commands):
    """The commands of this package."""

    package = "binlog.cli.paging"
    names = ("stat", "print", "check")


@click.group("paging", cls=PagingCommands, no_args_is_help=False, short_help="Inspect pages, or a queue.")
def command() -> None:
    """Inspect the pages in DIR: those of a queue, of binlog.paging, or of JBoss Messaging.

    All of these commands may run while another process has DIR open, and change nothing.

    Each address has pages, numbered from 1, and each page has messages, numbered from 0. A queue is the address
    'queue'.
    """

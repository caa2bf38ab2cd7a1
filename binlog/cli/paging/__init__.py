"""`binlog paging`: pages of messages, looked at from a terminal or a script."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class PagingCommands(Commands):
    """The modules of this package."""

    package = "binlog.cli.paging"
    names = ("stat", "print", "check")


@click.group("paging", cls=PagingCommands, no_args_is_help=False, short_help="Look at pages, or at a queue.")
def command() -> None:
    """Look at the paging in DIR: that of a queue, of binlog.paging, or of JBoss Messaging.

    All of them may run while another process has it, and change nothing.

    Each address has pages, numbered from 1, and a page has messages, numbered from 0. A queue has all in one address,
    'queue'.
    """

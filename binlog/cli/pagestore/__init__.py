"""`binlog pagestore`: inspect and maintain a page store."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class PageStoreCommands(Commands):
    """The commands of this package."""

    package = "binlog.cli.pagestore"
    names = ("stat", "print", "check", "backup", "shrink", "xa")


@click.group("pagestore", cls=PageStoreCommands, no_args_is_help=False, short_help="Inspect or maintain a page store.")
def command() -> None:
    """Inspect or maintain the page store in DIR.

    stat, print, check, and xa without an option may run while another process has the store open, and change nothing.
    The other commands need the store to themselves.
    """

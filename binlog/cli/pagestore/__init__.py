"""`binlog pagestore`: a page store, from a terminal or a script."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class PageStoreCommands(Commands):
    """The modules of this package."""

    package = "binlog.cli.pagestore"
    names = ("stat", "print", "check", "backup", "shrink", "xa")


@click.group("pagestore", cls=PageStoreCommands, no_args_is_help=False, short_help="Look at a page store, or keep it.")
def command() -> None:
    """Look at the page store in DIR, or keep it in order.

    stat, print, check, and xa without an option may run while another process has the store, and change nothing. The
    others have it to themselves meanwhile.
    """

"""`binlog journal`: commands to inspect, export and import a journal."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands, load


class JournalCommands(Commands):
    """The modules of this package."""

    package = "binlog.cli.journal"
    names = ("stat", "print", "check", "export", "import")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # A module cannot be named `import`.
        return load("importing", self.package) if cmd_name == "import" else super().get_command(ctx, cmd_name)


@click.group("journal", cls=JournalCommands, no_args_is_help=False, short_help="Inspect a journal of records by id.")
def command() -> None:
    """Inspect a journal in DIR, written by binlog.journal or by JBoss Messaging.

    All commands but import change nothing, and may run while another process has the journal open.

    A record has an id, a type from 0 to 255, and a body. An update of it has a type and a body too. The state of a
    record is live, updated (live, with a later update), deleted, open (in a transaction that was not ended), prepared,
    rolled_back, failed (its transaction is incomplete), void (it had no effect), or done (a delete, or the end of a
    transaction).
    """

"""`binlog journal`: a journal's records, looked at from a terminal or a script, and taken elsewhere."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands, load


class JournalCommands(Commands):
    """The modules of this package."""

    package = "binlog.cli.journal"
    names = ("stat", "print", "check", "export", "import")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # `import` can be no name of a module.
        return load("importing", self.package) if cmd_name == "import" else super().get_command(ctx, cmd_name)


@click.group("journal", cls=JournalCommands, no_args_is_help=False, short_help="Look at a journal of records by ids.")
def command() -> None:
    """Look at a journal in DIR: that of binlog.journal, or of JBoss Messaging.

    All but import may run while another process has the journal, and change nothing.

    A record has an id, a type from 0 to 255, and a body; and updates, which have a type and a body, too. A state tells
    what became of each: live, updated (it is there, and so is an update behind it), deleted, open (of a transaction
    that nobody has ended), prepared, rolled_back, failed (a part of the transaction is missing), void (nothing came of
    it), or done (of a delete, and of what ends a transaction).
    """

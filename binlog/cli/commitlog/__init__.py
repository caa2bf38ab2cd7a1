"""`binlog commitlog`: inspect a commit log from a terminal or a script.

Each command is a module of its own.  `options` has the options that several of them share, and `messages` turns
messages into text.
"""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class StoreCommands(Commands):
    """The subcommands, which are the modules of this package."""

    package = "binlog.cli.commitlog"
    names = ("stat", "cat", "tail", "find", "check")


@click.group("commitlog", cls=StoreCommands, no_args_is_help=False, short_help="Inspect a store of messages.")
def command() -> None:
    """Inspect the store of messages in DIR, written by binlog.commitlog or Apache RocketMQ.

    The commands can run while another process writes to the store, and need no permission to write. If the writer uses
    sync flush, they see only messages that are on the disk.

    A message belongs to a queue of a topic, and has a queue offset there, from 0. Its offset is its place in the commit
    log, in bytes. Its id is the host that stores it and that offset, in 32 or 56 hexadecimal digits.
    """

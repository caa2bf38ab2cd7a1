"""`binlog commitlog`: a store of messages, in the files of Apache RocketMQ's, looked at from a terminal or a script."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class StoreCommands(Commands):
    """The modules of this package."""

    package = "binlog.cli.commitlog"
    names = ("stat", "cat", "tail", "find", "check")


@click.group("commitlog", cls=StoreCommands, no_args_is_help=False, short_help="Look at a store of messages.")
def command() -> None:
    """Look at a store of messages in DIR: that of binlog.commitlog, or of Apache RocketMQ.

    All of them may run while another process writes to the store, need no permission to write, and with sync flush see
    what is on the disk alone.

    A message is one of a queue of a topic, and has a queue offset there, from 0; its offset is where it lies in the
    commit log, in bytes. Its id is who stores it and that offset, in 32 hexadecimal digits, or in 56.
    """

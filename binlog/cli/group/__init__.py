"""`binlog group`: create, inspect and operate the consumer groups of a log, and work for one.

`overview` shows groups and their items, `history` what happened, and `dead` the dead letters.  `settings` creates
and changes groups, and `items` ends deliveries by their tokens.  `take` and `work` are members: `take` hands one item
after the other to the program on its standard input, `work` runs a command for each.  `options` and `messages` have
what several of them use.
"""

from __future__ import annotations

import importlib

import click

from binlog.cli.commands import SuggestingGroup

# The module of each command; imported on first use.
_MODULES = {
    "ls": "overview",
    "stat": "overview",
    "peek": "overview",
    "log": "history",
    "check": "history",
    "create": "settings",
    "set": "settings",
    "pause": "settings",
    "resume": "settings",
    "reset": "settings",
    "release": "settings",
    "delete": "settings",
    "work": "work",
    "take": "take",
    "ack": "items",
    "nack": "items",
    "reject": "items",
    "retry": "items",
    "dead": "dead",
}


class GroupCommands(SuggestingGroup):
    """The subcommands, which are in the modules of this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        commands = importlib.import_module(f"{__name__}.{_MODULES[cmd_name]}").COMMANDS
        found = next(each for each in commands if each.name == cmd_name)
        assert isinstance(found, click.Command)
        return found


@click.group("group", cls=GroupCommands, no_args_is_help=False, short_help="Consumer groups: workers that share a log.")
def command() -> None:
    """Inspect and operate the consumer groups of the log in DIR, or run workers for them.

    Each message of the log goes to one member of a group at a time, until a member has acknowledged it. A message is a
    record, with or without an envelope that gives it a key, headers, a delay or an expiry. Its sequence is its number
    in the log, from 0. A token names one delivery of a message; any process can end the delivery with it.

    'take' and 'work' join the group as members. All other commands may run at any time, while members work.
    """

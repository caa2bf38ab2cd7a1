"""The subcommands by name, each imported when it is used: `binlog cat` does not pay for the live display."""

from __future__ import annotations

import importlib

import click

NAMES = ("append", "cat", "tail", "monitor", "cutover", "prune", "archive", "stat", "check", "repair", "shell")


class Commands(click.Group):
    """A group whose commands are the modules of this package that NAMES lists, each with a `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name) if cmd_name in NAMES else None


def load(name: str) -> click.Command:
    """The command with a name from NAMES."""
    command = importlib.import_module(f"binlog.cli.{name}").command
    assert isinstance(command, click.Command)
    return command

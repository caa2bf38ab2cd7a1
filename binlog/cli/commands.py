"""The subcommands by name, each imported when it is used: `binlog cat` does not pay for the live display."""

from __future__ import annotations

import importlib

import click

_OF_A_LOG = (
    "append", "cat", "tail", "monitor", "cutover", "prune", "archive", "backup", "stat", "check", "repair",
)  # fmt: skip
NAMES = (*_OF_A_LOG, "shell", "commitlog", "journal", "paging", "pagestore", "spark")


class Commands(click.Group):
    """A group whose commands are the modules of a package that `names` lists, each with a `command`."""

    package = "binlog.cli"
    names: tuple[str, ...] = NAMES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name, self.package) if cmd_name in self.names else None


def load(name: str, package: str = "binlog.cli") -> click.Command:
    """The command with a name from NAMES, or from those of another package."""
    if package == "binlog.cli" and name in _OF_A_LOG:
        package = "binlog.cli.log"
    command = importlib.import_module(f"{package}.{name}").command
    assert isinstance(command, click.Command)
    return command

"""The table of subcommands, each imported on first use so that `binlog cat` starts quickly."""

from __future__ import annotations

import importlib

import click

_OF_A_LOG = (
    "append", "cat", "tail", "monitor", "cutover", "prune", "archive", "backup", "stat", "check", "repair",
    "import", "export", "ship",
)  # fmt: skip
# `import` is a keyword, so no module can have that name.
_MODULES = {"import": "import_records", "export": "export_records"}
NAMES = (*_OF_A_LOG, "group", "shell", "commitlog", "journal", "paging", "pagestore", "spark")


class OrderedGroup(click.Group):
    """A click group that lists its commands in the order of their definitions."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Commands(click.Group):
    """A click group that imports its commands, one module each, from `package` when they are used."""

    package = "binlog.cli"
    names: tuple[str, ...] = NAMES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name, self.package) if cmd_name in self.names else None


def load(name: str, package: str = "binlog.cli") -> click.Command:
    """Import a command by its name and return it."""
    if package == "binlog.cli" and name in _OF_A_LOG:
        package = "binlog.cli.log"
    command = importlib.import_module(f"{package}.{_MODULES.get(name, name)}").command
    assert isinstance(command, click.Command)
    return command

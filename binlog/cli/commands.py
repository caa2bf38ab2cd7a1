"""The table of subcommands, each imported on first use so that `binlog cat` starts quickly."""

from __future__ import annotations

import importlib
from typing import NoReturn

import click

_OF_A_LOG = (
    "append", "cat", "tail", "cutover", "prune", "archive", "backup", "stat", "check", "repair",
)  # fmt: skip
_WATCHING = ("monitor", "top", "web", "metrics")
_MOVING = ("import", "export", "ship")
NAMES = (
    *_OF_A_LOG, *_WATCHING, *_MOVING,
    "group", "seal", "witness", "shell", "doctor", "commitlog", "journal", "paging", "pagestore", "spark", "completion",
)  # fmt: skip
# The modules of commands that are in another folder than their package, or have another name; `import` is a keyword.
_MODULES = {
    **{name: f"log.{name}" for name in _OF_A_LOG},
    **{name: f"watching.{name}" for name in _WATCHING},
    "top": "top.command",
    "import": "moving.import_records",
    "export": "moving.export_records",
    "ship": "moving.ship",
    "witness": "seal.witness",
}

# The variable in which the script of a shell asks for the words that fit.
COMPLETE_VARIABLE = "_BINLOG_COMPLETE"


class SuggestingGroup(click.Group):
    """A click group that answers a wrong command with the nearest one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (
            args
            and not ctx.resilient_parsing
            and not args[0].startswith("-")
            and args[0] not in self.list_commands(ctx)
        ):
            self._refuse(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _refuse(self, ctx: click.Context, name: str) -> NoReturn:
        import difflib  # only a wrong command needs it

        nearest = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        hint = f", did you mean {nearest[0]!r}?" if nearest else ""
        raise click.UsageError(f"No such command {name!r}{hint}", ctx)


class OrderedGroup(SuggestingGroup):
    """A click group that lists its commands in the order of their definitions."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class Commands(SuggestingGroup):
    """A click group that imports its commands, one module each, from `package` when they are used."""

    package = "binlog.cli"
    names: tuple[str, ...] = NAMES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name, self.package) if cmd_name in self.names else None


def load(name: str, package: str = "binlog.cli") -> click.Command:
    """Import a command by its name and return it."""
    place = _MODULES.get(name, name) if package == "binlog.cli" else name
    command = importlib.import_module(f"{package}.{place}").command
    assert isinstance(command, click.Command)
    return command

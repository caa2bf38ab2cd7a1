"""All commands, listed from click, so that tests of all commands include new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click
import pytest

from binlog.cli.main import binlog_command


def leaf_commands() -> list[str]:
    """Return the words of each command that is not a group: `tail`, `journal print`."""
    return list(_leaves(binlog_command, ()))


def commands(names: Iterable[str]) -> list[Any]:
    """Return these commands as test parameters; those of Spark have the marker `spark`."""
    return [pytest.param(name, marks=[pytest.mark.spark] if name.startswith("spark ") else []) for name in names]


def _leaves(command: click.Command, words: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(words)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from _leaves(below, (*words, name))

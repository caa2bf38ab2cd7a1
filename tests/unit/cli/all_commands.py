"""Every command, as click knows them, so that a test of all of them meets the next one too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click
import pytest

from binlog.cli.main import binlog_command


def leaf_commands() -> list[str]:
    """The words of each command that has no commands below it: `tail`, `journal print`."""
    return list(_leaves(binlog_command, ()))


def commands(names: Iterable[str]) -> list[Any]:
    """The parameters of a test of these commands.  Those of Spark need PySpark."""
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

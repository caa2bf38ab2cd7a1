"""Options that the commands for a journal share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from binlog.journal import JournalLayout

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Files(TypedDict):
    """Which files are a journal's, and what they are: as read_records has it."""

    prefix: str
    extension: str
    layout: JournalLayout | None


def files_options(command: _Command) -> _Command:
    """--prefix, --extension and --layout, which become a Files named `files`."""

    def with_files(prefix: str, extension: str, layout: str | None, **others: Any) -> Any:
        found = Files(prefix=prefix, extension=extension, layout=None if layout is None else JournalLayout(layout))
        return command(files=found, **others)

    # click has options and the help text from the function that it is given.
    with_files.__doc__ = command.__doc__
    with_files.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--layout",
            type=click.Choice([layout.value for layout in JournalLayout]),
            help="What files are that say nothing of it; 'jbm' if it is not told, and their records fit several.",
        ),
        click.option("--extension", metavar="E", default="jnl", show_default=True, help="See --prefix."),
        click.option("--prefix", metavar="P", default="journal", show_default=True, help="Files are named P-NUMBER.E."),
    ):
        option(with_files)
    return with_files  # type: ignore[return-value]

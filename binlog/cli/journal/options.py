"""Options that the commands for journals share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from binlog.journal import JournalLayout

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Files(TypedDict):
    """The arguments of read_records that say which files are a journal's, and their layout."""

    prefix: str
    extension: str
    layout: JournalLayout | None


def files_options(command: _Command) -> _Command:
    """Add --prefix, --extension and --layout to a command, which gets them as a Files named `files`."""

    def with_files(prefix: str, extension: str, layout: str | None, **others: Any) -> Any:
        files = Files(prefix=prefix, extension=extension, layout=None if layout is None else JournalLayout(layout))
        return command(files=files, **others)

    # click takes the options and the help text from the function that it gets.
    with_files.__doc__ = command.__doc__
    with_files.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--layout",
            type=click.Choice([layout.value for layout in JournalLayout]),
            help="Layout of files with a four-byte header; by default, recognised by their records, else 'jbm'.",
        ),
        click.option("--extension", metavar="E", default="jnl", show_default=True, help="See --prefix."),
        click.option("--prefix", metavar="P", default="journal", show_default=True, help="Files are named P-NUMBER.E."),
    ):
        option(with_files)
    return with_files  # type: ignore[return-value]

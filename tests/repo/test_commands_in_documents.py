"""Every binlog command in a document exists, with the options that the document uses."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from binlog.cli.main import binlog_command

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_OPTION = re.compile(r"--?[A-Za-z0][\w-]*")


def _commands(text: str) -> list[str]:
    """Return the text in backquotes or on a line after a prompt, up to a pipe or another command."""
    found = re.findall(r"`(binlog [^`]+)`", text) + re.findall(r"^\$ (binlog .*)$", text, re.MULTILINE)
    return [re.split(r"&&|[|<>]", each)[0].replace("\n", " ") for each in found]


def _unknown(line: str) -> list[str]:
    """Return the words that are not a command, or not one of its options."""
    command: click.Command = binlog_command
    words = line.split(" -- ", maxsplit=1)[0].split()[1:]  # what follows is another command
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        below = command.get_command(click.Context(command), words[0])
        if below is None:
            return [words[0]]
        command = below
        words = words[1:]
    context = click.Context(command, help_option_names=["-h", "--help"])
    known = {name for each in command.get_params(context) for name in (*each.opts, *each.secondary_opts)}
    options = [word for word in words if _OPTION.fullmatch(word)]
    return [word for word in options if word not in known]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_existing_commands_and_options(path: Path) -> None:
    told = {line: wrong for line in _commands(path.read_text()) if (wrong := _unknown(line))}
    assert told == {}


def test_some_are_found_and_a_wrong_one_is_reported() -> None:
    assert len([line for path in DOCUMENTS for line in _commands(path.read_text())]) > 40
    assert _unknown("binlog tail DIR --nonsense") == ["--nonsense"]
    assert _unknown("binlog journal nonsense DIR") == ["nonsense"]

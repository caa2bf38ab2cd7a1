"""Generates docs/cli.md from the commands: `python -m binlog.cli.document --write`, in a checkout of the project."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from binlog.cli.commands import SuggestingGroup
from binlog.cli.main import binlog_command

PATH = "docs/cli.md"
_HEAD = """# The command line

Generated from the commands by `python -m binlog.cli.document --write`; do not edit.

`python -m binlog` is the same command. The option `--help` of each command prints what is listed here.
"""
_HELP_NAMES = ["-h", "--help"]


def document() -> str:
    """Return the text of docs/cli.md."""
    return "\n".join([_HEAD, *_of_command(binlog_command, "binlog", None)])


def _of_command(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    name = path.rpartition(" ")[2]
    context = click.Context(command, info_name=name, parent=parent, help_option_names=_HELP_NAMES)
    if parent is not None:
        yield f"{'##' if isinstance(parent.command, SuggestingGroup) and parent.parent is None else '###'} {path}\n"
    yield _text(command.help or "")
    if command.epilog:
        yield _text(command.epilog)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{path} {usage}\n```\n"
    rows = [record for each in command.get_params(context) if (record := each.get_help_record(context)) is not None]
    if rows:
        yield "| option | |\n| --- | --- |"
        yield "\n".join(f"| {_cell(f'`{names}`')} | {_plain(_cell(text))} |" for names, text in rows if text) + "\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from _of_command(below, f"{path} {each}", context)


def _text(text: str) -> str:
    """Return the paragraphs of a help text; one that keeps its lines becomes a block of code."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            paragraphs.append(f"```\n{paragraph[2:]}\n```\n")
        else:
            paragraphs.append(" ".join(paragraph.split()) + "\n")
    return "\n".join(paragraphs)


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _plain(cell: str) -> str:
    """Return text in which `[default: 10] [x>=0]` is not a link."""
    return cell.replace("] [", "] \\[")


def main() -> int:
    """Write or check the document; return 0 if it is current or was written, 1 if it is stale."""
    parser = argparse.ArgumentParser(prog="python -m binlog.cli.document", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--check", action="store_true", help="fail if the document differs from the commands")
    action.add_argument("--write", action="store_true", help="write the document")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the project's root")
    options = parser.parse_args()
    path, text = options.root / PATH, document()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if options.write:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {PATH}")
        return 0
    print(f"stale: {PATH} (python -m binlog.cli.document --write)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

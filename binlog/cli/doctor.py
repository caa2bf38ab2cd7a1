"""`binlog doctor`: examine the machine and a directory."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from binlog.cli.exits import ExitCode, ended_by_sigterm, opening
from binlog.cli.options import DIRECTORY_VARIABLE, DirectoryPath, json_option
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line
from binlog.doctor import Examination, Finding, Verdict, examine

_COLUMNS = 80
_SUBJECT_COLUMNS = 20
_VERDICT_COLUMNS = 10


@click.command("doctor", short_help="Examine this machine and a directory.")
@click.argument("directory", metavar="[DIR]", type=DirectoryPath(), default=".", envvar=DIRECTORY_VARIABLE)
@json_option(
    'Print one JSON object: path, refused, and "findings", each with area, subject, verdict, value, reason and remedy.'
)
def command(directory: str, as_json: bool) -> ExitCode:
    """Examine this machine and DIR: print each part that is slow or refused, the reason, and how to mend it.

    DIR is the directory of a log, or one in which a log will be; by default, the current directory. If it is writable,
    the command tries the operations of a log in a temporary folder there, and removes the folder.

    The verdicts: 'ok'; 'slow', everything works, but slower; 'doubtful', a promise may not hold, or could not be tried;
    'refused', something does not work. The exit code is 1 if something is refused, else 0. A sync that takes less than
    20 microseconds is doubtful: the disk may not honour it.
    """
    with ended_by_sigterm(), opening():
        # The folder is removed before SIGTERM ends the command.
        examination = examine(directory)
    if as_json:
        write_line(object_line(_as_object(examination)))
    else:
        for line in _lines(examination):
            write_line(line)
    return ExitCode.FAILED if examination.is_refused else ExitCode.OK


def _as_object(examination: Examination) -> dict[str, object]:
    findings = [
        {
            "area": each.area,
            "subject": each.subject,
            "verdict": each.verdict.value,
            "value": each.value,
            "reason": each.reason or None,
            "remedy": each.remedy or None,
        }
        for each in examination.findings
    ]
    return {"path": examination.path, "refused": examination.is_refused, "findings": findings}


def _lines(examination: Examination) -> Iterator[str]:
    area = ""
    for each in examination.findings:
        if each.area != area:
            if area:
                yield ""
            area = each.area
            yield from _wrapped(f"{area} ", examination.path) if area == "directory" else [area]
        yield from _finding_lines(each)


def _finding_lines(finding: Finding) -> Iterator[str]:
    head = f"  {finding.verdict.value:<{_VERDICT_COLUMNS}}{finding.subject:<{_SUBJECT_COLUMNS}}"
    yield from _wrapped(head, finding.value)
    if finding.reason:
        word = "note" if finding.verdict is Verdict.OK else "why"
        yield from _wrapped(" " * len(head), f"{word}: {finding.reason}")
    if finding.remedy:
        yield from _wrapped(" " * len(head), f"mend: {finding.remedy}")


def _wrapped(head: str, text: str) -> list[str]:
    """Return the text in lines that fit on a terminal of 80 columns; a word that is longer, such as a path, is cut."""
    return textwrap.wrap(printable(text), _COLUMNS, initial_indent=head, subsequent_indent=" " * len(head))

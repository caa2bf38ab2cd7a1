"""Print the problems that a `check` command found."""

from __future__ import annotations

from collections.abc import Sequence

import binlog
from binlog.cli.exits import ExitCode
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line


def print_problems(problems: Sequence[binlog.Problem], *, as_json: bool) -> ExitCode:
    """Print each problem on a line of its own, and return the exit code of the command."""
    for problem in problems:
        write_line(object_line(problem._asdict()) if as_json else printable(str(problem)))
    if not problems and not as_json:
        write_line("no problems found")
    return ExitCode.FAILED if problems else ExitCode.OK

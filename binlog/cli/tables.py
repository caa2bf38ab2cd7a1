"""Tables that commands end with: plain text, numbers to the right."""

from __future__ import annotations

import os
from collections.abc import Sequence

from binlog.cli.output import STANDARD_OUTPUT, printable, write_line

_GAP = "  "


def write_table(
    names: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = (), least: Sequence[str] = ()
) -> None:
    """A line for the names and one for each row.

    left: the names of columns that are text.  least: of those that a terminal too narrow for all goes without, the
    first one first.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in (names, *cells)) for at in range(len(names))]
    shown = _fitting(names, widths, least)
    for row in (names, *cells):
        line = (row[at].ljust(widths[at]) if names[at] in left else row[at].rjust(widths[at]) for at in shown)
        write_line(_GAP.join(line).rstrip())


def _fitting(names: Sequence[str], widths: Sequence[int], least: Sequence[str]) -> list[int]:
    """The columns that are shown."""
    shown = list(range(len(names)))
    room = os.get_terminal_size(STANDARD_OUTPUT).columns if os.isatty(STANDARD_OUTPUT) else 0
    for name in least if room else ():
        if sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1) <= room:
            break
        shown.remove(names.index(name))
    return shown

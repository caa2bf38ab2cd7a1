"""Tables that commands end with: plain text, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence

from binlog.cli.output import printable, write_line


def write_table(names: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = ()) -> None:
    """A line for the names and one for each row.  left: the names of columns that are text."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in (names, *cells)) for at in range(len(names))]
    for row in (names, *cells):
        line = (
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(names, row, widths, strict=True)
        )
        write_line("  ".join(line).rstrip())

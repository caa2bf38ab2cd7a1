"""Tables that the commands end with: plain text, numbers to the right."""

from __future__ import annotations

from collections.abc import Sequence

from binlog.cli.amounts import count_text, size_text
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


def seconds_text(seconds: float) -> str:
    """`12.3`, without a unit."""
    return f"{seconds:.1f}"


def rate_text(rate: float | None) -> str:
    """Records a second; `-` where that is not known."""
    return "-" if rate is None else count_text(rate if rate < 10 else round(rate))


def byte_rate_text(rate: float | None) -> str:
    """`1.5 MiB/s`."""
    return "-" if rate is None else f"{size_text(rate)}/s"


def size_or_unknown(size: float | None) -> str:
    """A size, or `-`."""
    return "-" if size is None else size_text(size)

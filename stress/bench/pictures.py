"""The pictures of docs/benchmarks.md: `python -m stress.bench.pictures` draws them from the tables of the page.

A picture has no figures but those of the tables below it, so the two cannot differ.  `make bench ARGS=--write` draws
them too.  A row that the page lacks is left out, and so is a picture without rows.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stress.bench.contestant import FLOOR, OURS, Unit
from stress.bench.rows import durable, group_rates, log_handlers, reading, spark, waking
from stress.bench.sample import Spread
from stress.bench.svg import Bar, Group, bar_chart

FOLDER = "benchmarks"  # beside the page

_HEADING = "## In pictures"
_SECTION = re.compile(rf"^{_HEADING}\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"^### (\S+)\n\n[^\n]*\n\n((?:\|[^\n]*\n)+)", re.MULTILINE)
_LESS_IS_BETTER = (Unit.MICROSECONDS.value, Unit.SECONDS.value, Unit.MEBIBYTES.value)


@dataclass(frozen=True)
class Picture:
    """A picture of some rows.  rows: their names, by their labels.  contestants: in this order; empty for all."""

    name: str
    title: str
    rows: Mapping[str, str]
    contestants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A row's table: its unit, and the median and the range of each contestant that was measured."""

    unit: str
    spreads: Mapping[str, Spread]


# The time of these begins with the call; the others may be negative.
_WAKING = (waking.FROM_THE_CALL, f"{OURS}, with the sync", waking.FLOOR, waking.CALLS)


def _counted(name: str, count: int) -> str:
    return f"1 {name}" if count == 1 else f"{count} {name}{'es' if name == 'process' else 's'}"


PICTURES = (
    Picture(
        "durable",
        "Durable appends, one record a call",
        {_counted("process", count): durable.row_name(count) for count in (1, 4, 8, 32)},
        (OURS, durable.SQLITE, "persist-queue", "LMDB", "Redis stream"),
    ),
    Picture("waking", "From an append to a reader in another process", {"": waking.NAME}, _WAKING),
    Picture(
        "workers",
        "Workers that claim and acknowledge one message after another, durably",
        {_counted("worker", count): group_rates.row_name(count) for count in group_rates.WORKERS},
        (OURS, group_rates.SQLITE, group_rates.PERSIST_QUEUE, group_rates.REDIS),
    ),
    Picture(
        "logging",
        "Logging to the same place",
        {_counted("process", count): log_handlers.row_name(count) for count in (1, 8)},
    ),
    Picture(
        "reading",
        "Reading records in order",
        {"": reading.NAME},
        (reading.ENTRIES, reading.BATCHES_AS_BYTES, "SQLite", "LMDB"),
    ),
    Picture(
        "spark",
        "Spark, reading a gigabyte of records",
        {query: spark.read_name(name) for name, query in spark.TITLES.items()},
        (OURS, spark.TEXT, spark.PARQUET, spark.ROWS),
    ),
)


def illustrated(text: str) -> tuple[str, dict[str, str]]:
    """Return the page with a section of pictures before its first one, and the pictures by their file names."""
    tables = dict(_tables(text))
    drawn = {f"{picture.name}.svg": (picture, svg) for picture in PICTURES if (svg := _draw(picture, tables))}
    text = _SECTION.sub("", text)
    if drawn:
        links = [f"![{picture.title}]({FOLDER}/{name})" for name, (picture, _) in drawn.items()]
        section = "\n\n".join([_HEADING, *links]) + "\n\n"
        text = re.sub(r"^(?=## )", lambda _: section, text, count=1, flags=re.MULTILINE)
    return text, {name: svg for name, (_, svg) in drawn.items()}


def write(path: Path, text: str) -> None:
    """Write the page with its pictures."""
    text, drawn = illustrated(text)
    folder = path.parent / FOLDER
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, svg in drawn.items():
        (folder / name).write_text(svg, encoding="utf-8")
    path.write_text(text, encoding="utf-8")


def _draw(picture: Picture, tables: Mapping[str, Table]) -> str | None:
    found = {label: tables[row] for label, row in picture.rows.items() if row in tables}
    groups = [Group(label, list(_bars(table, picture.contestants))) for label, table in found.items()]
    groups = [group for group in groups if group.bars]
    if not groups:
        return None
    unit = next(iter(found.values())).unit
    better = "less" if unit in _LESS_IS_BETTER else "more"
    return bar_chart(picture.title, f"{unit}; {better} is better. A line shows the range of the rounds.", groups)


def _bars(table: Table, contestants: tuple[str, ...]) -> Iterator[Bar]:
    for name in contestants or table.spreads:
        if name in table.spreads:
            kind = "ours" if name.startswith(OURS) else "floor" if name.startswith(FLOOR) else "other"
            yield Bar(name, table.spreads[name], kind)


def _tables(text: str) -> Iterator[tuple[str, Table]]:
    """Parse the tables of the figures; a contestant without a figure is left out."""
    for name, lines in _TABLE.findall(text.partition("\n## Figures\n")[2].partition("\n## ")[0]):
        heading, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines.splitlines()]
        spreads = {
            row[0]: Spread(_number(row[1]), *map(_number, row[2].split(" to "))) for row in rows if " to " in row[2]
        }
        yield name, Table(heading[1], spreads)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def main() -> int:
    """Draw the pictures of docs/benchmarks.md again; return 0."""
    path = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
    write(path, path.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run `binlog spark` in this process, on the session that the tests share, and parse its output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def table(self) -> dict[str, str]:
        """Return the only row of the last table, by its columns."""
        names, row = (re.split(r"  +", line.strip()) for line in self.out.splitlines()[-2:])
        return dict(zip(names, row, strict=True))

    def rows(self, first: str) -> list[list[str]]:
        """Return the rows of the table whose first column has this name."""
        lines = self.out.splitlines()
        start = next(at for at, line in enumerate(lines) if line.split()[:1] == [first]) + 1
        end = next((at for at in range(start, len(lines)) if not lines[at]), len(lines))
        return [re.split(r"  +", line.strip()) for line in lines[start:end]]


Run = Callable[..., Ran]


def rows(spark: Any, path: Path, form: str = "parquet", **options: str) -> list[dict[str, Any]]:
    """Return every row of an output, in the order of the log, with bytes as `bytes`."""
    found = [row.asDict(recursive=True) for row in spark.read.format(form).options(**options).load(str(path)).collect()]
    for row in found:
        row.update({name: bytes(value) for name, value in row.items() if isinstance(value, bytearray)})
    return sorted(found, key=_place)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    # A parser may have a field `number`.
    return row.get("source", ""), row.get("log_number", row.get("number")), row.get("log_offset", row.get("offset"))

"""The results as JSON, for other programs: everything that the document is made of."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from stress.bench.document import Taken
from stress.bench.machine import Machine
from stress.bench.rounds import Result, Results


def to_json(machine: Machine, taken: Taken, results: Results) -> str:
    """One object: `machine`, `taken`, `rows`."""
    rows = [
        {
            "name": row.name,
            "title": row.title,
            "unit": row.unit.value,
            "contestants": [_result(result) for result in results.of(row)],
        }
        for row in results.rows
    ]
    whole = {"machine": dataclasses.asdict(machine), "taken": dataclasses.asdict(taken), "rows": rows}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _result(result: Result) -> dict[str, Any]:
    return {
        "name": result.contestant.name,
        "how": result.contestant.how,
        "missing": result.missing,
        "failure": result.failure,
        "samples": [None if sample is None else dataclasses.asdict(sample) for sample in result.samples],
    }

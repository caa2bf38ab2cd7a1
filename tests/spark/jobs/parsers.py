"""Parsers as a user would write them, for the tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def words(data: Any) -> Any:
    """Parse `7 seven` to 7 and seven; raise for the whole batch if one record differs."""
    parts = pc.split_pattern(data.cast(pa.string()), " ", max_splits=1)
    numbers = pc.list_element(parts, 0).cast(pa.int64())
    return pa.RecordBatch.from_arrays([numbers, pc.list_element(parts, 1)], names=["number", "word"])


words.schema = pa.schema([("number", pa.int64()), ("word", pa.string())])  # type: ignore[attr-defined]


def too_few(data: Any) -> Any:
    """Drop empty records."""
    kept = data.filter(pc.greater(pc.binary_length(data), 0))
    return pa.table({"size": pc.binary_length(kept)})


too_few.schema = "size INT"  # type: ignore[attr-defined]


def wrong(data: Any) -> Any:
    """Return no rows at all."""
    return len(data)


wrong.schema = "size INT"  # type: ignore[attr-defined]

"""Formatting of amounts."""

from __future__ import annotations

import pytest

from binlog.cli.amounts import count_text, duration_text, size_text, time_text
from binlog.cli.output import printable


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (1 << 20, "1.0 MiB"), (150 << 20, "150 MiB"), (2**70, "1024 EiB")],
)
def test_sizes_are_formatted(size: float, text: str) -> None:
    assert size_text(size) == text


def test_counts_durations_and_times_are_formatted() -> None:
    assert [count_text(count) for count in (None, 0, 1.25, 12345)] == ["-", "0", "1.2", "12,345"]
    assert [duration_text(seconds) for seconds in (-1, 3, 119, 120, 7200, 200000)] == [
        *("0 s", "3 s", "119 s", "2 min", "2 h", "2 d")
    ]
    assert [time_text(time) for time in (None, 0, 2**64 - 1)] == ["-", "1970-01-01T00:00:00Z", "2554-07-21T23:34:33Z"]


def test_printable_text_has_no_control_characters() -> None:
    assert printable("ü\x1b[31m\n\x9b\u202e") == "ü\\x1b[31m\\n\\u009b\\u202e"

"""Amounts as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(size: float) -> str:
    """`1.5 MiB`, with three digits or four."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    digits = 0 if unit == 0 or size >= 100 else 1
    return f"{size:.{digits}f} {_UNITS[unit]}"


def count_text(count: float | None) -> str:
    """`12,345`, and `-` for what is not known."""
    if count is None:
        return "-"
    return f"{count:,.1f}" if 0 < count < 10 and count != int(count) else f"{count:,.0f}"


def things_text(count: float | None, thing: str, things: str | None = None) -> str:
    """`1 record`, `2 records`.  things: of more than one, where that is not with an s."""
    return f"{count_text(count)} {thing if count == 1 else things or f'{thing}s'}"


def duration_text(seconds: float) -> str:
    """`3 s`, `12 min`, `5 h`, `2 d`: one unit is enough."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def time_text(time_ns: int | None) -> str:
    """`2025-01-31T12:00:00Z`, and `-` for what is not known.  Times are UTC, as in every output of ours."""
    if time_ns is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return "-"  # a header can say anything

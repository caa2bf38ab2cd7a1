"""Numbers in the tables that the jobs end with."""

from __future__ import annotations

from binlog.cli.amounts import count_text, size_text


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

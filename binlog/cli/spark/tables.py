"""Format numbers in the tables that jobs print."""

from __future__ import annotations

from binlog.cli.amounts import count_text, size_text


def seconds_text(seconds: float) -> str:
    """Format seconds as `12.3`, without a unit."""
    return f"{seconds:.1f}"


def rate_text(rate: float | None) -> str:
    """Format records per second; an unknown rate is `-`."""
    return "-" if rate is None else count_text(rate if rate < 10 else round(rate))


def byte_rate_text(rate: float | None) -> str:
    """`1.5 MiB/s`."""
    return "-" if rate is None else f"{size_text(rate)}/s"


def size_or_unknown(size: float | None) -> str:
    """Format a size; an unknown one is `-`."""
    return "-" if size is None else size_text(size)

"""Parse the times that people type, and print times for people and for programs.

A time without an offset is local, unless --utc is given.  Times are nanoseconds since 1970 UTC.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import binlog

# A bare number is refused: it could be a year or a time ago.
_NUMBER = re.compile(r"[0-9.]+", re.ASCII)
_DAYS_AGO = {"today": 0, "yesterday": 1}
_CACHED_MAX = 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment(text: str, *, utc: bool) -> datetime:
    """Parse a time, and return it with a zone.

    text: `2025-01-31T12:00:00Z` or another time of ISO 8601, with or without an offset; `now`; `today` and `yesterday`,
    at midnight; or `5m`, `-5m`, `2h ago`, `1.5d`, counted back from now.
    utc: whether a time without an offset, and a day, are in UTC or in local time.
    Raises: ValueError.
    """
    word = text.strip()
    now = datetime.now(UTC)
    if word.lower() == "now":
        return now
    if word.lower() in _DAYS_AGO:
        day = _in_zone(now, utc=utc).date() - timedelta(days=_DAYS_AGO[word.lower()])
        return _with_zone(datetime(day.year, day.month, day.day), utc=utc)  # noqa: DTZ001 - the zone is added here
    ago = word.removeprefix("-").removesuffix("ago").rstrip()
    if not _NUMBER.fullmatch(ago):
        with suppress(ValueError, OverflowError):
            return now - timedelta(seconds=binlog.parse_seconds(ago))
    try:
        return _with_zone(datetime.fromisoformat(word), utc=utc)
    except (ValueError, OverflowError):
        raise ValueError(
            "not a time such as 2025-01-31T12:00:00Z, today, yesterday, or 5m, 2h or 1d for that long ago: "
        ) from None


def moment_ns(moment: datetime) -> int:
    """Return a time with a zone as nanoseconds since 1970 UTC."""
    since = moment - _EPOCH
    return (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000


@lru_cache(_CACHED_MAX)
def rfc3339(time_ns: int, *, utc: bool) -> str:
    """Format a time as `2025-01-31T12:00:00.123456Z`, or with the local offset."""
    text = _in_zone(_moment(time_ns), utc=utc).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z") if utc else text


@lru_cache(_CACHED_MAX)
def short_time(time_ns: int, *, utc: bool) -> str:
    """Format a time as `2025-01-31 12:00:00.123`, without its zone."""
    return _in_zone(_moment(time_ns), utc=utc).isoformat(" ", "milliseconds")[:23]


def _moment(time_ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def _in_zone(moment: datetime, *, utc: bool) -> datetime:
    return moment.astimezone(UTC) if utc else moment.astimezone()


def _with_zone(moment: datetime, *, utc: bool) -> datetime:
    if moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=UTC) if utc else moment.astimezone()

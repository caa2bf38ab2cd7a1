"""Trends: how the lag of each follower and group changed over the last minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import NamedTuple

from binlog.watching.log_view import LogView

TREND_SECONDS = 60.0
# Before this much time has been seen, a trend would be an accident.
_SECONDS_MIN = 2.0
_SAMPLE_SECONDS = 1.0
# A lag is steady if it changes by less than this, or if a line fits its changes badly.
_STEADY_MAX = 5.0
_CORRELATION_MIN = 0.7

Key = tuple[str, Hashable]


class Trend(NamedTuple):
    """The change of a lag per second.  direction: `rising`, `falling` or `steady`."""

    per_second: float
    direction: str


class Trends:
    """The lags of the last minute, and the trend of each.  Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._samples: dict[Key, deque[tuple[float, float]]] = {}
        self._noted: float | None = None
        self._trends: dict[Key, Trend] = {}

    def note(self, now: float, lags: Mapping[Key, float | None]) -> None:
        """Take note of the lags, at most once a second.  What has no lag now is forgotten."""
        if self._noted is not None and now - self._noted < _SAMPLE_SECONDS:
            return
        self._noted = now
        known = {key: lag for key, lag in lags.items() if lag is not None}
        self._samples = {key: self._samples.get(key, deque()) for key in known}
        for key, lag in known.items():
            samples = self._samples[key]
            samples.append((now, lag))
            while samples[0][0] < now - TREND_SECONDS:
                samples.popleft()
        found = {key: trend_of(samples) for key, samples in self._samples.items()}
        self._trends = {key: trend for key, trend in found.items() if trend is not None}

    def present(self) -> Mapping[Key, Trend]:
        """Return the trend of each that has been seen for some seconds."""
        return self._trends


def trend_of(samples: deque[tuple[float, float]]) -> Trend | None:
    """Return the trend of (time, lag) pairs: the slope of the line that fits them best; None if they are too few."""
    seconds = samples[-1][0] - samples[0][0]
    if seconds < _SECONDS_MIN:
        return None
    times, lags = zip(*samples, strict=True)
    # Imported here, because most programs that read the state of a log once know no trend.
    import statistics

    slope = statistics.linear_regression(times, lags).slope
    if abs(slope) * seconds < _STEADY_MAX or abs(statistics.correlation(times, lags)) < _CORRELATION_MIN:
        return Trend(slope, "steady")
    return Trend(slope, "rising" if slope > 0 else "falling")


def lags_of(view: LogView) -> dict[Key, float | None]:
    """Return the lag of each follower and group of a log: in records, or in bytes if another program appends to it."""
    lags: dict[Key, float | None] = {}
    for follower in view.followers:
        records = follower.lag_records
        lags["follower", follower.path] = follower.lag_bytes if records is None else records
    for group in view.groups:
        lags["group", group.name] = None if group.stat is None else group.stat.lag
    return lags

"""The trends of lags over the last minute."""

from __future__ import annotations

import pytest

from binlog.watching import Trends


def _trend(lags: list[float], *, seconds: float = 1.0) -> tuple[str, float] | None:
    trends = Trends()
    for step, lag in enumerate(lags):
        trends.note(100 + step * seconds, {("group", "a"): lag})
    found = trends.present().get(("group", "a"))
    return None if found is None else (found.direction, found.per_second)


def test_a_lag_that_grows_or_shrinks_has_its_change_per_second() -> None:
    assert _trend([7.0 * step for step in range(30)]) == ("rising", pytest.approx(7))
    assert _trend([900 - 30.0 * step for step in range(30)]) == ("falling", pytest.approx(-30))
    assert _trend([1e6 + 3 * step for step in range(30)]) == ("rising", pytest.approx(3))


def test_a_lag_that_only_fluctuates_is_steady() -> None:
    assert _trend([5.0] * 20) == ("steady", 0)
    assert _trend([float(step % 2 * 50) for step in range(40)]) == ("steady", pytest.approx(0, abs=0.2))
    assert _trend([float(step > 55) for step in range(60)]) == ("steady", pytest.approx(0, abs=0.1))


def test_a_trend_is_unknown_at_first() -> None:
    assert _trend([1.0]) is None
    assert _trend([1.0, 500.0]) is None
    assert _trend([1.0, 500.0, 1000.0]) == ("rising", pytest.approx(500, rel=0.01))


def test_only_the_last_minute_counts() -> None:
    assert _trend([10.0 * step for step in range(100)] + [1000.0] * 61) == ("steady", 0)


def test_a_lag_that_is_unknown_or_gone_begins_again() -> None:
    trends = Trends()
    for now in range(10):
        trends.note(now, {("group", "a"): now * 10.0, ("group", "b"): now * 10.0})
    trends.note(10, {("group", "a"): None})
    assert trends.present() == {}
    trends.note(11, {("group", "a"): 1.0})
    assert trends.present() == {}

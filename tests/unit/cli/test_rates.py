"""Measuring rates."""

from __future__ import annotations

import pytest

from binlog.cli.amounts import HISTORY_SECONDS, Amount, RateMeter


def test_a_constant_rate_is_measured() -> None:
    meter = RateMeter(1000.0)
    for step in range(400):
        meter.add(1000.0 + step / 10, Amount(5, 500))
    rate = meter.per_second(1040.0, 2.0)
    assert rate.records == pytest.approx(50, rel=0.15)
    assert rate.bytes == pytest.approx(5000, rel=0.15)
    history = meter.history(1040.0)
    assert len(history) == HISTORY_SECONDS
    assert history[-40:] == [50] * 40
    assert history[:-40] == [0] * 20


def test_old_records_are_not_counted() -> None:
    meter = RateMeter(0.0)
    meter.add(1.0, Amount(1000, 1))
    assert meter.per_second(100.0, 2.0) == (0, 0)
    assert not any(meter.history(100.0))
    meter.add(100.0, Amount(1, 1))
    assert len(meter._buckets) == 1


def test_the_first_record_does_not_give_a_huge_rate() -> None:
    meter = RateMeter(10.0)
    meter.add(10.0, Amount(1, 1))
    assert meter.per_second(10.0, 2.0).records <= 4


def test_records_that_arrived_since_an_earlier_time_are_spread_over_it() -> None:
    meter = RateMeter(1000.0)
    for second in range(1, 21, 2):
        meter.add(1000.0 + second, Amount(80, 800), since=1000.0 + max(second - 2, 0))
    assert meter.history(1019.0)[-17:-1] == [pytest.approx(40)] * 16
    assert meter.per_second(1019.0, 2.0).records == pytest.approx(40, rel=0.15)

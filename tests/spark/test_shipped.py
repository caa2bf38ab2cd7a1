"""Spark reads copies of `binlog ship` in place, also from a URL, while files arrive."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import binlog
from binlog.moving import ship
from tests.support.ship_storms import run_storm

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def _count(spark: Any, path: str) -> int:
    return int(spark.read.format("binlog").load(path).count())


@pytest.mark.slow
@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.install)])
def test_spark_counts_the_records_of_the_closed_files(spark: Any, log: Path, tmp_path: Path, kills: int) -> None:
    target = tmp_path / "target"
    run_storm(log, str(target), writers=4, kills=kills, seed=random.SystemRandom().randrange(1 << 32))
    expected = sum(file.record_count or 0 for file in binlog.stat(log).files)
    assert expected > 0
    assert _count(spark, str(target)) == expected
    assert _count(spark, f"file://{target}") == expected


def test_spark_reads_each_file_as_soon_as_it_has_arrived(spark: Any, log: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    with binlog.Writer(log) as writer:
        for number in range(3):
            writer.append_many([b"x"] * 10)
            writer.cutover()
            if number == 1:
                binlog.archive(log)
            ship(log, target)
            assert _count(spark, str(target)) == 10 * (number + 1)

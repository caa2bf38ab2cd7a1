"""Detecting Spark's Python workers in this version of Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_a_worker_is_detected_and_freezes_imported_objects(spark: Any) -> None:
    def is_settled(_: int) -> bool:
        import gc

        from binlog.spark.worker import tune_worker

        tune_worker()
        return gc.get_freeze_count() > 0

    assert spark.sparkContext.parallelize([0], 1).map(is_settled).collect() == [True]

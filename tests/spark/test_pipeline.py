"""The whole pipeline, with its own Spark, which is killed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.checkout import ROOT

# In the group of the Spark tests, because starting two Sparks at once would keep both cores busy.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.turn(0)]

KILLS = 1


def test_each_record_arrives_once_although_spark_is_killed(
    figure: Callable[[str], None],
) -> None:
    command = [sys.executable, "-m", "stress.pipeline", "--kills", str(KILLS), "--seed", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    [kills, on_the_way] = map(int, re.findall(r"(\d+) kills, (\d+) with", done.stdout)[-1])
    assert kills == KILLS
    assert 3 * on_the_way >= kills
    figure(f"pipeline: {kills} kills of Spark, {on_the_way} with a batch on its way; each record once, in order")

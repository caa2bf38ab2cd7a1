"""One Spark session for all tests here, which run on one worker because they are in one xdist group."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog.cli.main import main
from binlog.spark import session
from tests.spark.jobs.commands import Ran, Run


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.showConsoleProgress": "false",
    }
    spark = session("binlog tests", cores=2, settings=settings)
    spark.sparkContext.setLogLevel("OFF")  # tests check the errors in the driver
    yield spark
    spark.stop()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def run(spark: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `binlog spark` with arguments."""
    monkeypatch.setattr("binlog.cli.spark.display._LINE_SECONDS", math.inf)  # progress lines depend on the time

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main(["spark", *map(str, arguments)])
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run

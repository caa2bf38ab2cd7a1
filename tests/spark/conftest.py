"""One Spark session for all tests here: they name one xdist group, and so run on one worker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog.cli.main import main
from binlog.spark import session
from tests.spark.commands import Ran, Run


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.showConsoleProgress": "false",
    }
    spark = session("binlog tests", cores=2, settings=settings)
    spark.sparkContext.setLogLevel("OFF")  # the errors that tests provoke are looked at in the driver
    yield spark
    spark.stop()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def run(spark: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `binlog spark` with arguments."""
    monkeypatch.setattr("binlog.cli.spark.display._LINE_SECONDS", math.inf)  # how long it takes is not what is tested

    def run(*arguments: object) -> Ran:
        capfd.readouterr()
        code = main(["spark", *map(str, arguments)])
        captured = capfd.readouterr()
        return Ran(code, captured.out, captured.err)

    return run

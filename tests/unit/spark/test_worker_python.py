"""A worker Python that cannot run binlog is refused before Spark starts."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from binlog.errors import StateError
from binlog.spark.worker import check_worker_python
from tests.support.checkout import ROOT
from tests.support.pythons import make_other_version

# The environment of workers in a checkout.
CHECKOUT = {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)


def test_the_default_is_the_drivers_python() -> None:
    check_worker_python({}, {})


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
@pytest.mark.slow
def test_both_interpreters_and_the_variable_are_named(bare: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, str(bare))
    with pytest.raises(StateError) as caught:
        check_worker_python({}, CHECKOUT)
    for part in (str(bare), sys.executable, name, "ModuleNotFoundError: No module named "):
        assert part in str(caught.value)


def test_a_setting_of_the_session_wins(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(bare))
    check_worker_python({"spark.pyspark.python": sys.executable}, CHECKOUT)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with pytest.raises(StateError, match=r"set by spark\.pyspark\.python"):
        check_worker_python({"spark.pyspark.python": str(bare)}, CHECKOUT)


@pytest.mark.slow
def test_another_minor_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other, version = make_other_version(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    with pytest.raises(StateError) as caught:
        check_worker_python({}, CHECKOUT)
    ours = f"{sys.executable} (Python {sys.version_info.major}.{sys.version_info.minor})"
    for part in (
        f"{other} (Python {version}), set by PYSPARK_PYTHON",
        ours,
        "PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON",
    ):
        assert part in str(caught.value)


def test_a_missing_python_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python3"))
    with pytest.raises(StateError, match="No such file or directory"):
        check_worker_python({}, CHECKOUT)


@pytest.mark.spark
def test_another_python_with_binlog_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    check_worker_python({}, CHECKOUT)

"""The settings and environment of `session`, without starting Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from binlog.spark import local_session

HOME = Path("/opt/java")


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_session, "find_java_home", lambda: HOME)
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)


def test_spark_uses_the_found_java_and_this_python() -> None:
    environment = local_session._spark_environment()
    assert environment["JAVA_HOME"] == str(HOME)
    assert environment["PYSPARK_PYTHON"] == sys.executable
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_a_users_choice_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    assert not {"PYSPARK_PYTHON", "SPARK_LOCAL_IP"} & local_session._spark_environment().keys()


def test_workers_import_from_a_checkout_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setattr(local_session.binlog, "__file__", "/checkout/binlog/__init__.py")
    assert local_session._spark_environment()["PYTHONPATH"] == f"/checkout{os.pathsep}/mine"


def test_an_installed_package_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_session.site, "getsitepackages", lambda: ["/venv/site-packages"])
    monkeypatch.setattr(local_session.binlog, "__file__", "/venv/site-packages/binlog/__init__.py")
    assert "PYTHONPATH" not in local_session._spark_environment()


def test_workers_also_search_the_given_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setattr(local_session.binlog, "__file__", "/checkout/binlog/__init__.py")
    path = local_session._spark_environment(["/a", "/b"])["PYTHONPATH"]
    assert path.split(os.pathsep) == ["/checkout", "/a", "/b", "/mine"]


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BINLOG_TEST_SET", "before")
    monkeypatch.delenv("BINLOG_TEST_UNSET", raising=False)
    with local_session._environment({"BINLOG_TEST_SET": "within", "BINLOG_TEST_UNSET": "within"}):
        assert os.environ["BINLOG_TEST_SET"] == os.environ["BINLOG_TEST_UNSET"] == "within"
    assert os.environ["BINLOG_TEST_SET"] == "before"
    assert "BINLOG_TEST_UNSET" not in os.environ

"""The options of the data source, without Spark."""

from __future__ import annotations

import os

import pytest

from binlog.spark.options import Options, parse_options


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/var/log/audit", "/var/log/audit"),
        ("/var/log/../audit/", "/var/audit"),
        ("audit", os.path.abspath("audit")),
        ("/a:b", "/a:b"),
        ("file:///var/log/an%20audit", "/var/log/an audit"),
        ("file:/var/log", "/var/log"),
        ("file://localhost/var/log", "/var/log"),
    ],
)
def test_a_path_becomes_absolute(given: str, path: str) -> None:
    assert parse_options({"path": given}) == Options(path)


def test_names_are_of_any_case() -> None:
    assert parse_options({"PATH": "/log"}) == Options("/log")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs the path"),
        ({"path": ""}, "needs the path"),
        ({"paths": '["/a", "/b"]'}, "takes one directory"),
        ({"path": "/log", "zeta": "1", "Alpha": "2"}, "no option 'alpha', 'zeta'"),
        ({"path": "hdfs://host/log"}, "'hdfs://host/log' is not a path in a file system of this machine"),
        ({"path": "file://host/log"}, "'file://host/log' is on another machine"),
    ],
)
def test_what_is_not_known_is_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        parse_options(options)

"""Waiting for data that another machine has written; marked `spark` for its packages."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from binlog.errors import GoneError
from binlog.spark.log.options import ReadOptions
from binlog.spark.schema import Field

pytestmark = pytest.mark.spark

DATA = (Field("data", "data", True),)


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Any, Any, bytes]]:
    """A reader and its task, planned on one machine, and the log's file as another machine still sees it."""
    from binlog.spark import shared_fs
    from binlog.spark.log.reading import BatchReader

    def planned(machine: str) -> tuple[Any, Any, bytes]:
        path = tmp_path / "00000001.dat"
        with Writer(tmp_path) as writer:
            writer.append(b"one")
            before = path.read_bytes()
            writer.append(b"two")
            monkeypatch.setattr("binlog.spark.tasks.this_machine", lambda: machine)
            reader = BatchReader(ReadOptions((str(tmp_path),)), DATA)
            [task] = reader.partitions()
        after = path.read_bytes()
        path.write_bytes(before)
        monkeypatch.setattr(shared_fs, "_SECONDS_MAX", 5.0)
        return *pickle.loads(pickle.dumps((reader, task))), after

    return planned


def seen_later(path: Path, data: bytes) -> None:
    """Replace a file's contents in half a second, atomically, because no machine sees an empty file."""

    def replace() -> None:
        path.with_name("new").write_bytes(data)
        path.with_name("new").replace(path)

    threading.Timer(0.5, replace).start()


def read(reader: Any, task: Any) -> list[bytes]:
    return [value for batch in reader.read(task) for value in batch.column("data").to_pylist()]


def test_a_task_waits_until_data_is_visible(tmp_path: Path, planned: Any) -> None:
    reader, task, after = planned("another machine")
    seen_later(tmp_path / "00000001.dat", after)
    assert read(reader, task) == [b"one", b"two"]


def test_a_task_waits_until_a_file_is_visible(tmp_path: Path, planned: Any) -> None:
    reader, task, after = planned("another machine")
    (tmp_path / "00000001.dat").unlink()
    seen_later(tmp_path / "00000001.dat", after)
    assert read(reader, task) == [b"one", b"two"]


def test_a_task_does_not_wait_forever(planned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog.spark import shared_fs

    reader, task, _ = planned("another machine")
    monkeypatch.setattr(shared_fs, "_SECONDS_MAX", 0.3)
    with pytest.raises(GoneError, match="has changed since the read was planned"):
        read(reader, task)


def test_waiting_for_a_file_of_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog.spark import shared_fs

    threading.Timer(0.5, (tmp_path / "late").touch).start()
    assert shared_fs.wait_until_visible(str(tmp_path / "late"), "another machine", size=0)
    monkeypatch.setattr(shared_fs, "_SECONDS_MAX", 0.3)
    assert not shared_fs.wait_until_visible(str(tmp_path / "never"), "another machine", size=0)


def test_a_task_on_the_planners_machine_does_not_wait(planned: Any) -> None:
    from binlog.spark.shared_fs import this_machine

    reader, task, _ = planned(this_machine())
    began = time.monotonic()
    with pytest.raises(GoneError):
        read(reader, task)
    assert time.monotonic() - began < 4

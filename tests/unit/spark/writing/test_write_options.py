"""The options of writing and their effect on the writers; the latter are marked `spark` for its packages."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binlog import ExternalFile, FileSystem
from binlog.errors import AccessError, StateError
from binlog.spark.writing.write_options import WriteOptions, parse_write_options
from binlog.storage.directory import _REMOTE, Directory
from binlog.storage.native import lib


def test_default_options() -> None:
    assert parse_write_options({"path": "/log"}) == WriteOptions("/log", 64 << 20)


def test_a_shared_file_system_is_accepted_with_the_option() -> None:
    assert parse_write_options({"path": "/log", "fileSystem": "Any"}).file_system is FileSystem.ANY


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"path": "/log", "fileSystem": "nfs"}, "fileSystem must be local or any, not 'nfs'"),
        ({"path": "s3://bucket/log"}, "'s3://bucket/log' is not a local path"),
        (
            {"path": "/log", "color": "red"},
            "unknown option 'color'; the options are path, maxRecordBytes, minFileBytes",
        ),
    ],
)
def test_unknown_options_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=f"^binlog: .*{text}"):
        parse_write_options(options)


@pytest.mark.spark
def test_a_shared_file_system_is_refused_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from binlog.spark.writing.writing import open_writer

    path = str(tmp_path)
    with Directory(path) as directory:
        monkeypatch.setitem(_REMOTE, lib.binlog_filesystem(directory.fd), "this one")
    with pytest.raises(AccessError, match="is on this one"):
        open_writer(parse_write_options({"path": path}))
    open_writer(parse_write_options({"path": path, "fileSystem": "any"})).close()


@pytest.mark.spark
def test_a_directory_that_is_not_shared_is_an_error(tmp_path: Path) -> None:
    from binlog.spark.shared_fs import this_machine
    from binlog.spark.writing.writing import BatchWriter, Written

    writer = BatchWriter(parse_write_options({"path": str(tmp_path / "log")}), "data")
    folder = str(tmp_path / "log" / ".task-output" / "job")
    elsewhere = f"{folder}/0-x"
    external = ExternalFile(elsewhere, 5, 306, 0, durable=True, entries=b"")
    with pytest.raises(StateError, match=f"^{elsewhere}, written by a task, is not visible on the driver's machine"):
        writer.commit([Written(0, folder, external, "", this_machine())])


@pytest.mark.spark
def test_concurrent_jobs_make_and_remove_the_task_output_folder(tmp_path: Path) -> None:
    from binlog.spark.writing.writing import make_folder, remove_folder

    def job(number: int) -> None:
        path = str(tmp_path / ".task-output" / str(number))
        for _ in range(500):
            make_folder(path)
            remove_folder(path)

    with ThreadPoolExecutor() as pool:
        list(pool.map(job, range(3)))
    assert list(tmp_path.iterdir()) == []

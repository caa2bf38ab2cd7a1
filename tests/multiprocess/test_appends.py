"""Many writers on one directory: every record is in the log once, at its ref, and each writer's are in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

import binlog
from binlog import Ref
from binlog.format.log_header import parse_log_header
from binlog.storage.staging_area import area_name
from tests.support.logs import all_raw_records, job, jobs_by_writer
from tests.support.workers import append_jobs, run_all

WRITERS = 8
COUNT = 5000


def _hold(log: Path, refs: list[list[Ref]]) -> None:
    with binlog.Reader(log) as reader:
        found = {entry.ref: entry.data for entry in reader}
    acknowledged = {ref: job(writer, index) for writer, own in enumerate(refs) for index, ref in enumerate(own)}
    assert found == acknowledged
    assert jobs_by_writer(all_raw_records(log)) == {writer: list(range(COUNT)) for writer in range(WRITERS)}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_eight_processes_append(log: Path, method: str) -> None:
    _hold(log, run_all(method, [(append_jobs, (log, writer, COUNT)) for writer in range(WRITERS)]))


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False], ids=["one-writer", "a-writer-each"])
def test_eight_threads_append(log: Path, shared: bool) -> None:
    refs: list[list[Ref]] = [[] for _ in range(WRITERS)]
    one = binlog.Writer(log)

    def append(writer: int) -> None:
        own = one if shared else binlog.Writer(log)
        for sequence in range(COUNT):
            refs[writer].append(own.append(job(writer, sequence)))
        if not shared:
            own.close()

    threads = [threading.Thread(target=append, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.close()
    _hold(log, refs)


def test_processes_that_start_on_an_empty_directory_share_its_first_file(log: Path) -> None:
    """A rename that replaced the first file would lose the acknowledged records in it."""
    for round_number in range(5):
        directory = log.with_name(f"round-{round_number}")
        refs = run_all("fork", [(append_jobs, (directory, writer, 5)) for writer in range(6)])
        assert sorted(path.name for path in directory.iterdir()) == ["00000001.dat", "00000001.idx"]
        assert len({ref for own in refs for ref in own}) == 30
        assert jobs_by_writer(all_raw_records(directory)) == {writer: list(range(5)) for writer in range(6)}
        assert binlog.check(directory) == []


@pytest.mark.slow
def test_removing_the_staging_area_loses_no_synced_record(log: Path) -> None:
    """Processes append and others start, while the area is removed again and again, as systemd's RemoveIPC= does."""
    with binlog.Writer(log) as writer:
        writer.append(job(0, 0))
        uuid = parse_log_header((log / "00000001.dat").read_bytes()[:256], path="").uuid
        area = Path("/dev/shm" + area_name(log.stat(), uuid))
        removed = 0
        with ThreadPoolExecutor(1) as thread:
            appending = thread.submit(run_all, "spawn", [(append_jobs, (log, number, 1000)) for number in (1, 2, 3, 4)])
            while not wait([appending], timeout=0.002).done:
                removed += area.exists()
                area.unlink(missing_ok=True)
            appending.result()
    assert removed > 1
    assert jobs_by_writer(all_raw_records(log)) == {0: [0], **{number: list(range(1000)) for number in (1, 2, 3, 4)}}

"""The cases that are run on the cluster, with their expected results.

A worker is killed when some tasks of a job are done, as many as possible are running, and others are still waiting.  So
it dies in the middle of a task, and Spark itself must report a lost task.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import binlog
from binlog import Mode, Reader, Writer
from stress.cluster.driver import Driver, Progress
from stress.cluster.installation import OTHER_VERSION, Installation
from stress.cluster.machines import Cluster
from stress.cluster.web_server import served

_WORKERS = 2
_RECORDS = 40_000
_RECORDS_LATER = 4_000
_RECORDS_A_CALL = 100
_TASKS = 20
# A twentieth of the log, to get that many tasks.
_TASK_BYTES = "600k"
_RECORDS_A_BATCH = 6000

_TASKS_BEFORE = 3
_BATCHES_BEFORE = 2

Summary = list[int]
"""The number of rows, of distinct positions, the sum of their CRCs, and the first and last sequence number."""


@dataclass(frozen=True)
class Row:
    """The result of a case: what was done, what was observed, and the errors."""

    what: str
    seen: str
    wrong: Sequence[str]
    seconds: float


class Proof:
    """All cases, run one after the other in one application.

    shared: the folder that all machines share.
    """

    def __init__(self, folder: Path, installation: Installation, cluster: Cluster, driver: Driver) -> None:
        self._installation = installation
        self._cluster = cluster
        self._driver = driver
        self._folder = folder
        self._shared = folder / "shared"
        self._shared.mkdir()
        self._log = self._shared / "log"

    def run(self, only: str) -> Iterator[Row]:
        """Run all cases, or those with a word in their names."""
        _append(self._log, 0, _RECORDS)
        self._executors()
        tried: dict[str, Callable[[], tuple[str, list[str]]]] = {
            "two workers, each with the wheel": self._where,
            "batch read, a worker killed": self._read_with_a_kill,
            "write, a worker killed": self._write_with_a_kill,
            "stream into Parquet, a worker killed": partial(self._stream_with_a_kill, "parquet"),
            "stream into a log, a worker killed": partial(self._stream_with_a_kill, "binlog"),
            "file://": partial(self._read, f"file://{self._log}"),
            "closed files over fsspec's http://": self._read_over_http,
            "closed files over fsspec's local://": partial(self._read_closed, f"local://{self._log}"),
            # The last one, because it leaves no usable executor.
            "another version on an executor": self._other_version,
        }
        for what, try_it in tried.items():
            if only in what:
                began = time.monotonic()
                seen, wrong = try_it()
                yield Row(what, seen, wrong, time.monotonic() - began)

    def _where(self) -> tuple[str, list[str]]:
        """Executors import the packages of the wheel, in folders of their own, and do not see this checkout."""
        found = self._executors()
        packages = str(self._installation.packages)
        wrong = [f"an executor has {each['binlog']}" for each in found if not each["binlog"].startswith(packages)]
        checkout = str(Path(__file__).resolve().parents[2])
        wrong += [f"an executor's path is {each['path']}" for each in found if checkout in each["path"].split(":")]
        folders = {each["folder"] for each in found}
        if len(folders) != _WORKERS or not all(folder.startswith(f"{self._folder}/worker-") for folder in folders):
            wrong.append(f"the executors work in {sorted(folders)}")
        return f"{len(folders)} executors", wrong

    def _executors(self) -> list[dict[str, str]]:
        self._cluster.wait_for_workers()
        found: list[dict[str, str]] = self._driver.ask("executors", count=_WORKERS)
        return found

    def _read_with_a_kill(self) -> tuple[str, list[str]]:
        killer = _Killer(self._cluster)
        options = {"maxPartitionBytes": _TASK_BYTES}
        answer = self._driver.ask("read", on_progress=killer.strikes, path=str(self._log), options=options)
        wrong = [*killer.wrong(answer["failed"]), *_differences(answer["found"], _summary(self._log))]
        return f"{answer['found'][0]:,} records, {killer.seen(answer['failed'])}", wrong

    def _write_with_a_kill(self) -> tuple[str, list[str]]:
        self._executors()
        target = self._shared / "written"
        killer = _Killer(self._cluster)
        with _nothing_left(target) as wrong:
            answer = self._driver.ask(
                "write", on_progress=killer.strikes, path=str(target), count=_RECORDS, tasks=_TASKS
            )
        expected = [b"%d" % number + b" some bytes" * 25 for number in range(_RECORDS)]
        wrong += killer.wrong(answer["failed"])
        wrong += _record_differences(_records(target), expected)
        return f"{_RECORDS:,} records, {killer.seen(answer['failed'])}", wrong

    def _stream_with_a_kill(self, form: str) -> tuple[str, list[str]]:
        self._executors()
        source, target = self._shared / f"source of {form}", self._shared / f"stream into {form}"
        _append(source, 0, _RECORDS)
        killer = _Killer(self._cluster)
        with _nothing_left(target) as wrong:
            self._driver.ask(
                "stream",
                source=str(source),
                target=str(target),
                form=form,
                checkpoint=str(self._shared / f"checkpoint of {form}"),
                options={"maxRecordsPerTrigger": str(_RECORDS_A_BATCH), "maxPartitionBytes": _TASK_BYTES},
            )
            self._driver.wait_until(killer.strikes)
            # Also append records meanwhile, to the next file too.
            _append(source, _RECORDS, _RECORDS_LATER)
            answer = self._driver.ask("finish")
        wrong += killer.wrong(answer["failed"])
        if form == "parquet":
            found = self._driver.ask("parquet", path=str(target))["found"]
            wrong += _differences(found, _summary(source))
            count = found[0]
        else:
            records = _records(target)
            wrong += _record_differences(records, _records(source))
            count = len(records)
        return f"{count:,} records, {answer['batches']} batches, {killer.seen(answer['failed'])}", wrong

    def _read(self, path: str) -> tuple[str, list[str]]:
        answer = self._driver.ask("read", path=path, options={})
        return f"{answer['found'][0]:,} records", _differences(answer["found"], _summary(self._log))

    def _read_closed(self, url: str) -> tuple[str, list[str]]:
        closed = [file for file in binlog.stat(self._log).files if file.closed]
        options = {"includeOpenFile": "false", "maxPartitionBytes": "2m"}
        answer = self._driver.ask("read", path=url, options=options)
        wrong = _differences(answer["found"], _summary(self._log, files={file.number for file in closed}))
        said = self._driver.ask("refused", path=url, options={})
        if "is open, and a remote file system does not say" not in said:
            wrong.append(f"an open file is not refused: {said[:300]!r}")
        return f"{answer['found'][0]:,} records of {len(closed)} files; the open file is refused", wrong

    def _read_over_http(self) -> tuple[str, list[str]]:
        with served(self._shared) as url:
            seen, wrong = self._read_closed(f"{url}/log")
            said = self._driver.ask("refused", path=f"{url}/none", options={})
            if f"AccessError: {url}/none: No such file or directory" not in said:
                wrong.append(f"a missing directory is not reported: {said[:300]!r}")
        said = self._driver.ask("refused", path="dav://host/log", options={})
        if "neither pyarrow nor fsspec supports it" not in said:
            wrong.append(f"an unknown kind of URL is not reported: {said[:300]!r}")
        return seen, wrong

    def _other_version(self) -> tuple[str, list[str]]:
        self._cluster.kill_workers()
        self._cluster.add_worker(PYTHONPATH=str(self._installation.other))
        self._cluster.wait_for_workers()
        said = self._driver.ask("refused", path=str(self._log), options={})
        text = f"the driver has binlog {binlog.__version__}, and this executor {OTHER_VERSION}"
        return f'"{text}"', [] if text in said else [f"it is not reported: {said[-300:]!r}"]


class _Killer:
    """Kills a worker in the middle of a job, and again if the worker had just finished its task and lost none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._at: Progress | None = None
        self._processes = 0

    def strikes(self, progress: Progress) -> bool:
        """Kill if it is time, and return whether a task was lost."""
        if progress["lost"]:
            return True
        if _in_the_middle(progress) and (self._at is None or _is_beyond(progress, self._at)):
            self._at = progress
            self._processes = self._cluster.kill_worker()
        return False

    def seen(self, failed: int) -> str:
        """In words."""
        if self._at is None:
            return "none killed"
        place = f"{self._at['done']} of {self._at['of']} tasks done"
        if self._at["batches"] >= 0:
            place = f"{self._at['batches']} batches done, and {place}"
        return f"{self._processes} processes killed with {place}, {failed} tasks lost"

    def wrong(self, failed: int) -> list[str]:
        """Return errors about the kill itself."""
        if self._at is None:
            return ["the job was never in the middle, and no worker was killed"]
        return [] if failed else ["no task was lost: the worker did not die in the middle of a task"]


def _in_the_middle(progress: Progress) -> bool:
    if progress["active"] < _WORKERS:
        return False
    if progress["batches"] >= 0:
        return progress["batches"] >= _BATCHES_BEFORE
    many = progress["of"] >= _TASKS // 2  # the stages after the reading have only a task or two
    return many and _TASKS_BEFORE <= progress["done"] <= progress["of"] * 3 // 4


def _is_beyond(progress: Progress, before: Progress) -> bool:
    """Return whether enough was done since then that a lost task would have been reported."""
    return progress["batches"] > before["batches"] + 1 or progress["done"] > before["done"] + _TASKS_BEFORE


def _append(log: Path, first: int, count: int) -> None:
    """Append distinct records, with two cutovers in between."""
    with Writer(log) as writer:
        for number in range(first, first + count, _RECORDS_A_CALL):
            records = [b"%d:" % each + b"x" * (each * 37 % 500) for each in range(number, number + _RECORDS_A_CALL)]
            writer.append_many(records, mode=Mode.FLUSH)
            if (number - first) * 3 // count < (number - first + _RECORDS_A_CALL) * 3 // count < 3:
                writer.cutover()


def _summary(log: Path, files: set[int] | None = None) -> Summary:
    """Return the expected summary of a log, or of some of its files."""
    with Reader(log) as reader:
        found = [
            (sequence, zlib.crc32(entry.data))
            for sequence, entry in enumerate(reader)
            if files is None or entry.ref.number in files
        ]
    return [len(found), len(found), sum(crc for _, crc in found), found[0][0], found[-1][0]]


def _differences(found: Summary, expected: Summary) -> list[str]:
    names = ("rows", "positions", "sum of CRCs", "first sequence", "last sequence")
    pairs = zip(names, found, expected, strict=True)
    return [f"{name}: {one}, expected {other}" for name, one, other in pairs if one != other]


def _records(log: Path) -> list[bytes]:
    with Reader(log) as reader:
        return [entry.data for entry in reader]


def _record_differences(found: list[bytes], expected: list[bytes]) -> list[str]:
    if found == expected:
        return []
    missing, twice = len(set(expected) - set(found)), len(found) - len(set(found))
    return [f"{len(found)} records of {len(expected)}: {missing} missing, {twice} duplicated, or out of order"]


@contextmanager
def _nothing_left(target: Path) -> Iterator[list[str]]:
    """Yield a list of errors, to which task output that a job left is added at the end of the block."""
    wrong: list[str] = []
    yield wrong
    if (target / ".task-output").exists():
        wrong.append(f"task output left: {sorted(path.name for path in (target / '.task-output').rglob('*'))[:5]}")
    if (target / "00000001.dat").exists():
        wrong += [str(problem) for problem in binlog.check(target)]

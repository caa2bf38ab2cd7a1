"""The parts of the jobs that need no Java: selections, outputs, counts and the division into tasks."""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from binlog import Ref, Writer
from binlog.errors import AccessError, NotFoundError, StateError
from tests.support.logs import jpos_file

# Without PySpark, these tests are deselected by their marker.
with contextlib.suppress(ImportError):
    from pyspark.sql import types

    from binlog.spark.jobs import Chosen, Output, SaveMode, Selection, check_outputs, choose, selection
    from binlog.spark.jobs.output import Format, UnpublishedOutput, remove
    from binlog.spark.jobs.parsing import plain_frame
    from binlog.spark.jobs.stats import Amount, _Group, _summed
    from binlog.spark.jobs.verify import tasks
    from binlog.spark.schema import type_ddl

pytestmark = pytest.mark.spark


def bounds(selection: Selection) -> tuple[Ref | None, Ref | None, int]:
    [found] = choose(selection).ranges
    return found.start, found.end, found.log_bytes


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files of two records each, the first closed."""
    with Writer(tmp_path / "log") as writer:
        for _ in range(2):
            writer.append_many([b"one", b"two"])
            writer.cutover()
    return str(tmp_path / "log")


def test_everything_is_selected(path: str) -> None:
    assert bounds(Selection(paths=(path,))) == (Ref(1, 256), Ref(3, 256), 28)


def test_one_closed_file(path: str) -> None:
    assert bounds(Selection(paths=(path,), number=2)) == (Ref(2, 256), Ref(2, 270), 14)
    with pytest.raises(StateError, match="file 3 is still open"):
        choose(Selection(paths=(path,), number=3))
    with pytest.raises(NotFoundError, match="no file 9"):
        choose(Selection(paths=(path,), number=9))


def test_adjacent_selections_have_each_record_once(tmp_path: Path) -> None:
    path, moments = str(tmp_path / "log"), []
    with Writer(path) as writer:
        for number in range(5):
            moments.append(datetime.now(UTC))
            writer.append(b"%d" % number)
            time.sleep(0.002)  # records need different times
            if number == 2:
                writer.cutover()
    ends = [None, *moments, datetime.now(UTC), datetime.now(UTC) + timedelta(days=1), None]
    found = [bounds(Selection(paths=(path,), since=one, until=other)) for one, other in pairwise(ends)]
    assert [size for _, _, size in found] == [0, 5, 5, 5, 5, 5, 0, 0]
    assert [start for start, _, _ in found][1:] == [end for _, end, _ in found][:-1]


def test_a_held_back_index_loses_no_record_between_two_days(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with Writer(path) as writer:
        first = writer.append(b"in the evening")
        time.sleep(0.002)
        midnight = datetime.now(UTC)
        assert bounds(Selection(paths=(path,), since=midnight)) == (first, Ref(1, first.offset + 18), 18)
        one_day = bounds(Selection(paths=(path,), until=midnight))
        assert one_day == (first, Ref(1, first.offset + 18), 18)
        second = writer.append(b"in the morning")
        time.sleep(0.002)
        # Now all records are in the index, with the times of their commits.
        assert bounds(Selection(paths=(path,), since=midnight, until=datetime.now(UTC)))[:2] == (
            second, Ref(1, second.offset + 18),
        )  # fmt: skip
    assert bounds(Selection(paths=(path,), since=midnight))[0] == second
    assert bounds(Selection(paths=(path,), until=midnight)) == one_day


def test_an_unfinished_day_has_all_records_and_writes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "log")
    with Writer(path) as writer:
        writer.append(b"one")
        size = (tmp_path / "log" / "00000001.idx").stat().st_size
        later = datetime.now(UTC) + timedelta(hours=1)
        assert bounds(Selection(paths=(path,), until=later)) == (Ref(1, 256), Ref(1, 263), 7)
        assert (tmp_path / "log" / "00000001.idx").stat().st_size == size


def test_an_index_that_cannot_be_completed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(path: str) -> Writer:
        raise AccessError("no permission")

    path = str(tmp_path / "log")
    with Writer(path) as writer:
        writer.append(b"one")
        monkeypatch.setattr(selection, "Writer", deny)
        with pytest.raises(StateError, match="cannot be completed: no permission"):
            choose(Selection(paths=(path,), until=datetime.now(UTC)))


def test_records_without_a_time_have_the_time_of_the_last_write(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    directory.mkdir()
    first = jpos_file(directory, [b"one"], status=1, next_number=2)
    jpos_file(directory, [b"two"], number=2)
    os.utime(first, (1_000_000_000, 1_000_000_000))
    then = datetime.fromtimestamp(1_000_000_000, UTC)
    whole = Selection(paths=(str(directory),), since=then, until=then + timedelta(days=1))
    assert bounds(whole) == (Ref(1, 248), Ref(2, 248), 7)
    after = Selection(paths=(str(directory),), since=then + timedelta(days=1))
    assert bounds(after) == (Ref(2, 248), Ref(2, 255), 7)


def test_a_log_without_files_is_empty_and_a_missing_log_is_an_error(tmp_path: Path) -> None:
    assert bounds(Selection(paths=(str(tmp_path),), since=datetime.now(UTC))) == (None, None, 0)
    with pytest.raises(NotFoundError):
        choose(Selection(paths=(str(tmp_path / "none"),)))
    with pytest.raises(ValueError, match="no such directory"):
        choose(Selection(paths=(str(tmp_path / "x*"),)))


def test_several_logs_are_distinguished(path: str) -> None:
    assert not choose(Selection(paths=(path,))).several
    assert choose(Selection(paths=(f"{path}*",))).several
    assert choose(Selection(paths=(path, path))).several


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown column nothing; the columns are source, number"):
        plain_frame(SimpleNamespace(), Chosen(ranges=(), several=False), ["data", "nothing"])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def unpublished_of(output: Output, text: str = "new") -> UnpublishedOutput:
    path = output.local()
    assert path is not None
    unpublished = path.with_name(f".{path.name}.0.unfinished")
    unpublished.mkdir()
    for name in ("_SUCCESS", f"part-{text}", f".part-{text}.crc"):
        (unpublished / name).write_text(text)
    return UnpublishedOutput(unpublished, output)


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def test_an_output_gets_its_name_when_it_is_complete(out: Path) -> None:
    output = Output(path=str(out))
    with unpublished_of(output) as unpublished:
        assert not out.exists()
        written = unpublished.publish()
    assert (written.files, written.file_bytes) == (1, 3)
    assert names(out) == [".part-new.crc", "_SUCCESS", "part-new"]
    assert names(out.parent) == ["out"]


def test_an_unpublished_output_is_removed(out: Path) -> None:
    with pytest.raises(ZeroDivisionError), unpublished_of(Output(path=str(out))):
        _ = 1 / 0
    assert names(out.parent) == []


def test_modes(out: Path) -> None:
    out.mkdir()
    Output(path=str(out)).check()  # an empty folder does not count as an output
    unpublished_of(Output(path=str(out))).publish()
    with pytest.raises(StateError, match="already exists"):
        Output(path=str(out)).check()
    with (
        unpublished_of(Output(path=str(out))) as unpublished,
        pytest.raises(StateError, match="was created by another process"),
    ):
        unpublished.publish()
    unpublished_of(Output(path=str(out), mode=SaveMode.APPEND), "more").publish()
    assert names(out) == [".part-more.crc", ".part-new.crc", "_SUCCESS", "part-more", "part-new"]
    unpublished_of(Output(path=str(out), mode=SaveMode.OVERWRITE), "other").publish()
    assert names(out) == [".part-other.crc", "_SUCCESS", "part-other"]
    remove(Output(path=str(out), mode=SaveMode.APPEND))
    assert out.exists()
    remove(Output(path=str(out), mode=SaveMode.OVERWRITE))
    assert names(out.parent) == []


def test_a_killed_append_leaves_no_success_marker(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpublished_of(Output(path=str(out))).publish()
    real, calls = os.rename, []

    def rename(old: Path, new: Path) -> None:
        calls.append(new.name)
        if len(calls) == 2:
            raise OSError("no")
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    with (
        unpublished_of(Output(path=str(out), mode=SaveMode.APPEND), "more") as unpublished,
        pytest.raises(OSError, match="no"),
    ):
        unpublished.publish()
    assert calls == [".part-more.crc", "part-more"]
    assert "_SUCCESS" not in names(out)


def test_local_and_remote_outputs() -> None:
    assert Output(path="file:/a%20b").local() == Path("/a b")
    assert Output(path="hdfs://name/a").local() is None
    with pytest.raises(ValueError, match="can only be appended to"):
        Output(path="/log", format=Format.BINLOG, mode=SaveMode.OVERWRITE).check()


def test_an_output_must_not_replace_a_log(path: str, tmp_path: Path) -> None:
    chosen = choose(Selection(paths=(path,)))
    link = tmp_path / "link"
    link.symlink_to(path)
    for place in (path, str(link), str(tmp_path)):
        with pytest.raises(ValueError, match="cannot be an output: it contains the log"):
            check_outputs(chosen, Output(path=place, mode=SaveMode.OVERWRITE))
    with pytest.raises(ValueError, match="cannot be an output: it contains the log"):
        check_outputs(chosen, Output(path=str(tmp_path / "out")), Output(path=path))
    with pytest.raises(ValueError, match="is given for two outputs"):
        check_outputs(chosen, Output(path=str(tmp_path / "out")), Output(path=f"file:{tmp_path}/out"))
    with Writer(tmp_path / "other"):
        pass
    with pytest.raises(StateError, match="is a log, which is never overwritten"):
        check_outputs(chosen, Output(path=str(tmp_path / "other"), mode=SaveMode.OVERWRITE))
    with pytest.raises(StateError, match="already exists"):
        check_outputs(chosen, Output(path=str(tmp_path / "other"), format=Format.BINLOG))


def test_a_batch_job_must_not_add_to_a_streams_output(out: Path) -> None:
    (out / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(StateError, match="is written by a stream"):
        Output(path=str(out), mode=SaveMode.APPEND).check()


def test_small_files_are_grouped_and_large_ones_checked_alone() -> None:
    mib = 1 << 20
    assert tasks({}) == []
    assert tasks({"/a": {1: 100 * mib, 2: 20 * mib, 3: 20 * mib, 4: 900 * mib}, "/b": {1: 1}}) == [
        [("/a", 1), ("/a", 2)],
        [("/a", 3)],
        [("/a", 4)],
        [("/b", 1)],
    ]


def test_the_bytes_of_an_hour_are_those_up_to_the_next_one() -> None:
    second, hour = 1_000_000, 3_600_000_000
    groups = [
        _Group("/a", 1, 0, 256, 10, 0, hour - second),
        _Group("/a", 1, 1, 356, 20, hour, hour + 9 * second),
        _Group("/a", 2, 1, 256, 1, hour + 10 * second, hour + 10 * second),
        _Group("/a", 2, None, 300, 2, None, None),
    ]
    found = _summed(groups, {("/a", 1): 1000, ("/a", 2): 400}, time.monotonic())
    assert [(each.number, each.records, each.bytes) for each in found.files] == [(1, 30, 744), (2, 3, 144)]
    hours = [(each.hour and each.hour.hour, each.records, each.bytes) for each in found.hours]
    assert hours == [(0, 10, 100), (1, 21, 644 + 44), (None, 2, 100)]
    assert found.total == Amount(records=33, bytes=888)
    assert found.files[0].records_per_second == pytest.approx(30 / 3609)
    assert found.files[1].records_per_second is None
    assert found.hours[0].bytes_per_second == pytest.approx(100 / 3600)


def test_types_are_formatted_as_sql() -> None:
    inner = types.StructType([types.StructField("a`b", types.ArrayType(types.DecimalType(5, 2)))])
    kind = types.MapType(types.StringType(), inner)
    assert type_ddl(kind) == "map<string, struct<`a``b`: array<decimal(5,2)>>>"
    assert type_ddl(types.NullType()) == "string"

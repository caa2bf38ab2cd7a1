"""Enums, sizes and times given as text: accepted if they are clear, else refused with the valid values.

The enums are found in the signatures of all public names, so that no new option is forgotten.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import tempfile
import typing
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import UnionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlog
from binlog import Background, ConsumerGroup, FileSystem, Mode, OnExpiry, Order, Reader, Ref, Since, Start, Writer
from binlog.commitlog import Flush, StoreOptions
from binlog.format.values import byte_count, seconds_of
from binlog.journal import (
    Journal,
    JournalLayout,
    JournalOptions,
    Sync,
    check_journal,
    read_records,
    stat_journal,
    survey_journal,
)
from binlog.pagestore import PageStore, PageStoreOptions
from binlog.paging import PageLayout, PagingOptions, Policy
from tests.support.journals import journal

MODULES = (
    "binlog",
    "binlog.commitlog",
    "binlog.journal",
    "binlog.paging",
    "binlog.pagestore",
    "binlog.queue",
    "binlog.spark.jobs",
)
Parameter = tuple[str, str]


def _enums(annotation: Any) -> set[type[enum.Enum]]:
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return {annotation}
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        return {each for part in typing.get_args(annotation) for each in _enums(part)}
    if typing.get_origin(annotation) is typing.Literal:
        return {type(each) for each in typing.get_args(annotation) if isinstance(each, enum.Enum)}
    return set()


def _callables(thing: Any, name: str) -> list[tuple[str, Any]]:
    if not inspect.isclass(thing):
        return [(name, thing)] if callable(thing) else []
    if issubclass(thing, enum.Enum | BaseException):
        return []
    names = [each for each in vars(thing) if not each.startswith("_")]
    found = [(f"{name}.{each}", getattr(thing, each)) for each in names if callable(getattr(thing, each))]
    return [*found, (name, thing.__init__)]


def _parameters(modules: Iterable[str]) -> dict[Parameter, type[enum.Enum]]:
    """Find each parameter of a public function, method or class of these modules that takes an enum."""
    found = {}
    for module in map(importlib.import_module, modules):
        for public in module.__all__:
            for name, function in _callables(getattr(module, public), f"{module.__name__}.{public}"):
                try:
                    hints = typing.get_type_hints(function)
                except (NameError, TypeError, AttributeError):
                    continue
                for parameter, annotation in hints.items():
                    kinds = _enums(annotation) if parameter != "return" else set()
                    for kind in kinds:
                        found[name, parameter] = kind
    return found


def _raised(call: Callable[[], object]) -> str:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    return str(caught.value)


def _append(method: str) -> Callable[[Path, Any], object]:
    def call(path: Path, mode: Any) -> object:
        records: dict[str, Any] = {"append": b"x", "append_many": [b"x"]}
        batch = binlog.Batch.from_records([b"x"])
        with Writer(path / "log") as writer:
            return getattr(writer, method)(records.get(method, batch), mode=mode)

    return call


def _queue(method: str) -> Callable[[Path, Any], object]:
    def call(path: Path, mode: Any) -> object:
        with binlog.open_queue(path / "queue") as queue:
            queue.put(b"x")
            return getattr(queue, method)(queue.get() if method == "ack" else b"y", mode=mode)

    return call


def _sync(method: str, *arguments: Any) -> Callable[[Path, Any], object]:
    def call(path: Path, sync: Any) -> object:
        with journal(path / "journal") as (opened, _):
            opened.append_add(1, 1, b"")
            return getattr(opened, method)(*arguments, sync=sync)

    return call


def _commit(path: Path, mode: Any) -> None:
    with PageStore(path / "pages") as store:
        store.create_queue("a")
        with store.transaction() as transaction:
            transaction.put("a", b"x")
            transaction.commit(mode=mode)


def _layout(inspect_journal: Callable[..., object]) -> Callable[[Path, Any], object]:
    def call(path: Path, layout: Any) -> object:
        with Journal(path / "journal", JournalOptions(file_bytes=2048)) as opened:
            opened.load()
        return inspect_journal(path / "journal", layout=layout)

    return call


def _with_log(use: Callable[[Path, Any], object]) -> Callable[[Path, Any], object]:
    def call(path: Path, word: Any) -> object:
        with Writer(path / "log") as writer:
            writer.append(b"x")
        return use(path / "log", word)

    return call


def _closed(handle: Any) -> None:
    handle.close()


def _group(opens: Callable[[Path, Any], ConsumerGroup]) -> Callable[[Path, Any], object]:
    return _with_log(lambda log, word: _closed(opens(log, word)))


def _with_group(use: Callable[[ConsumerGroup, Any], object]) -> Callable[[Path, Any], object]:
    def call(log: Path, word: Any) -> object:
        with ConsumerGroup(log, "group") as group:
            return use(group, word)

    return _with_log(call)


# A call for each parameter, with a word.  Words for a Sync are refused, because it decides the type of the result.
CALLS: dict[Parameter, Callable[[Path, Any], object]] = {
    ("binlog.Reader", "start"): _with_log(lambda log, word: _closed(Reader(log, word))),
    ("binlog.Writer", "mode"): lambda path, word: _closed(Writer(path / "log", mode=word)),
    ("binlog.Writer", "file_system"): lambda path, word: _closed(Writer(path / "log", file_system=word)),
    ("binlog.ConsumerGroup", "start"): _group(lambda log, word: ConsumerGroup(log, "group", start=word)),
    ("binlog.ConsumerGroup", "order"): _group(lambda log, word: ConsumerGroup(log, "group", order=word)),
    ("binlog.ConsumerGroup", "on_expiry"): _group(lambda log, word: ConsumerGroup(log, "group", on_expiry=word)),
    ("binlog.ConsumerGroup", "mode"): _group(lambda log, word: ConsumerGroup(log, "group", mode=word)),
    ("binlog.ConsumerGroup.set", "on_expiry"): _with_group(lambda group, word: group.set(on_expiry=word)),
    ("binlog.ConsumerGroup.reset", "to"): _with_group(lambda group, word: group.reset(word)),
    ("binlog.Writer.append", "mode"): _append("append"),
    ("binlog.Writer.append_many", "mode"): _append("append_many"),
    ("binlog.Writer.append_batch", "mode"): _append("append_batch"),
    ("binlog.open_queue", "mode"): lambda path, word: _closed(binlog.open_queue(path / "queue", mode=word)),
    ("binlog.repair", "file_system"): _with_log(lambda log, word: binlog.repair(log, file_system=word)),
    ("binlog.backup", "file_system"): _with_log(
        lambda log, word: binlog.backup(log, tempfile.mkdtemp(dir=log.parent), file_system=word)
    ),
    ("binlog.commitlog.StoreOptions", "flush"): lambda path, word: StoreOptions(flush=word),
    ("binlog.journal.Journal.append_add", "sync"): _sync("append_add", 2, 1, b""),
    ("binlog.journal.Journal.append_update", "sync"): _sync("append_update", 1, 1, b""),
    ("binlog.journal.Journal.append_delete", "sync"): _sync("append_delete", 1),
    ("binlog.journal.Journal.try_append_add", "sync"): _sync("try_append_add", 2, 1, b""),
    ("binlog.journal.Journal.try_append_update", "sync"): _sync("try_append_update", 1, 1, b""),
    ("binlog.journal.Journal.try_append_delete", "sync"): _sync("try_append_delete", 1),
    ("binlog.journal.Journal.append_add_tx", "sync"): _sync("append_add_tx", 9, 2, 1, b""),
    ("binlog.journal.Journal.append_update_tx", "sync"): _sync("append_update_tx", 9, 1, 1, b""),
    ("binlog.journal.Journal.append_delete_tx", "sync"): _sync("append_delete_tx", 9, 1),
    ("binlog.journal.Journal.prepare", "sync"): _sync("prepare", 9, b""),
    ("binlog.journal.Journal.commit", "sync"): _sync("commit", 9),
    ("binlog.journal.Journal.rollback", "sync"): _sync("rollback", 9),
    ("binlog.journal.JournalOptions", "layout"): lambda path, word: JournalOptions(layout=word),
    ("binlog.journal.check_journal", "layout"): _layout(check_journal),
    ("binlog.journal.read_records", "layout"): _layout(read_records),
    ("binlog.journal.stat_journal", "layout"): _layout(stat_journal),
    ("binlog.journal.survey_journal", "layout"): _layout(survey_journal),
    ("binlog.paging.PagingOptions", "full_policy"): lambda path, word: PagingOptions(full_policy=word),
    ("binlog.paging.PagingOptions", "policy"): lambda path, word: PagingOptions(policy=word),
    ("binlog.paging.PagingOptions", "layout"): lambda path, word: PagingOptions(layout=word),
    ("binlog.queue.Queue.put", "mode"): _queue("put"),
    ("binlog.queue.Queue.put_nowait", "mode"): _queue("put_nowait"),
    ("binlog.queue.Queue.ack", "mode"): _queue("ack"),
    ("binlog.queue.Queue", "mode"): lambda path, word: _closed(binlog.open_queue(path / "queue", mode=word)),
    ("binlog.pagestore.PageStoreOptions", "mode"): lambda path, word: PageStoreOptions(mode=word),
    ("binlog.pagestore.Transaction.commit", "mode"): _commit,
    ("binlog.spark.jobs.Output", "format"): lambda path, word: _output(format=word),
    ("binlog.spark.jobs.Output", "mode"): lambda path, word: _output(mode=word),
}
# Fields of results, and parameters of calls that an engine makes itself.
RESULTS = {
    ("binlog.journal.JournalStat", "layout"),
    ("binlog.journal.JournalSurvey", "layout"),
    ("binlog.journal.StoredRecord", "kind"),
    ("binlog.journal.StoredRecord", "state"),
    ("binlog.pagestore.Transaction.end", "state"),
}
WORDS: dict[type[enum.Enum], str] = {
    Mode: "flush", FileSystem: "any", Start: "end", Flush: "async", JournalLayout: "native",
    PageLayout: "native", Policy: "block", Order: "strict", OnExpiry: "drop",
}  # fmt: skip


def _output(**words: Any) -> object:
    return importlib.import_module("binlog.spark.jobs").Output(path="out", **words)


def _of_spark(name: str) -> list[pytest.MarkDecorator]:
    """The marks of a case that imports the package for PySpark."""
    return [pytest.mark.spark] if name.startswith("binlog.spark") else []


@pytest.mark.spark
def test_each_enum_of_a_signature_has_a_case() -> None:
    assert set(_parameters(MODULES)) == CALLS.keys() | RESULTS


@pytest.mark.parametrize(
    "parameter", [pytest.param(each, id=".".join(each), marks=_of_spark(each[0])) for each in CALLS]
)
def test_a_word_is_accepted_and_another_is_refused_with_the_valid_ones(parameter: Parameter, tmp_path: Path) -> None:
    kind = _parameters(module for module in MODULES if parameter[0].startswith(module))[parameter]
    call = CALLS[parameter]
    if kind is Sync:
        assert "Sync.WAIT, Sync.FUTURE, Sync.LATER" in _raised(lambda: call(tmp_path, "wait"))
        return
    call(tmp_path, WORDS.get(kind, next(iter(kind)).name.lower()))
    said = _raised(lambda: call(tmp_path, "nonsense"))
    assert "'nonsense'" in said
    assert all(f"'{each.value if isinstance(each.value, str) else each.name.lower()}'" in said for each in kind), said
    assert _raised(lambda: call(tmp_path, 1.5))


def test_a_word_means_what_its_member_does(tmp_path: Path) -> None:
    assert StoreOptions(flush="sync") == StoreOptions()  # type: ignore[arg-type]
    assert PagingOptions(policy="BLOCK").policy is Policy.BLOCK  # type: ignore[arg-type]
    with Writer(tmp_path / "log", mode="stage") as writer:
        assert writer.append(b"1") is None
        ref = writer.append(b"2", mode="sync")
        assert isinstance(ref, Ref)
        # A word for a mode used to mean Mode.FLUSH here.
        (ref,) = writer.append_many([b"3"], mode="sync")
        assert binlog.stat(tmp_path / "log").unsynced_bytes == 0
    with Reader(tmp_path / "log", str(ref)) as reader:
        assert [entry.data for entry in reader] == [b"3"]
        assert reader.next_ref == binlog.stat(tmp_path / "log").tail


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("512", 512), ("1K", 1024), ("10G", 10 << 30), ("10GB", 10 << 30), ("10GiB", 10 << 30), ("1.5 mib", 3 << 19)],
)
def test_sizes(text: str, bytes_: int, tmp_path: Path) -> None:
    assert binlog.parse_bytes(text) == byte_count(text, "x") == bytes_
    assert JournalOptions(file_bytes="2KiB").file_bytes == 2048  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90), ("1.5s", 1.5), ("250ms", 0.25), ("1m", 60), ("5min", 300), ("12h", 43200), ("30d", 2592000),
        ("2w", 1209600), ("1h30m", 5400), ("1h 30m", 5400),
    ],
)  # fmt: skip
def test_times(text: str, seconds: float) -> None:
    text = text.replace(" ", "")
    assert binlog.parse_seconds(text) == pytest.approx(seconds)
    assert seconds_of(timedelta(seconds=seconds), "x") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "5x", "1G2", "-1", "1e3", "nan", "5m5", "10GG", "1,5G"])
def test_other_texts_are_neither_sizes_nor_times(text: str) -> None:
    for parse in (binlog.parse_bytes, binlog.parse_seconds):
        with pytest.raises(ValueError, match=re.escape(repr(text))):
            parse(text)


@given(st.integers(0, 10**6))
def test_a_number_means_bytes_and_seconds(number: int) -> None:
    assert binlog.parse_bytes(str(number)) == binlog.parse_seconds(str(number)) == number


def test_sizes_and_times_of_options(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Writer(
        log, cutover_bytes="1K", cutover_seconds=timedelta(hours=1), lock_timeout="5s", prepare_bytes="1M"
    ) as writer:
        writer.append(b"x" * 1000)
        assert [file.closed for file in binlog.stat(log).files] == [True, False]
    assert binlog.prune(log, keep_bytes="1G", keep_seconds="1m", before="2:256") == []
    assert binlog.archive(log, keep_seconds=timedelta(days=1)) == []
    assert Background(sync_seconds="250ms").sync_seconds == 0.25  # type: ignore[arg-type]
    moment = Since(timedelta(minutes=5)).time_ns / 1e9
    assert abs(moment - (datetime.now(UTC) - timedelta(minutes=5)).timestamp()) < 60


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mode": None}, f"mode is a Mode, or one of {', '.join(repr(mode.name.lower()) for mode in Mode)}, not None"),
        ({"cutover_bytes": "1Q"}, "cutover_bytes: '1Q' is not a number of bytes, such as 512, 10G or 1.5MiB"),
        ({"cutover_bytes": 1.5}, "cutover_bytes is a whole number of bytes, or a text such as '1G', not 1.5"),
        ({"cutover_seconds": "soon"}, "cutover_seconds: 'soon' is not a time, such as 90s, 5m, 12h, 30d or 1h30m"),
        ({"cutover_seconds": [1]}, "cutover_seconds is seconds, a timedelta, or a text such as '5m', not [1]"),
        ({"permissions": "640"}, "permissions are a number such as 0o640, not '640'"),
        ({"background": 5}, "background is a binlog.Background, not 5"),
    ],
)
def test_a_writer_refuses_options_before_it_makes_anything(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert _raised(lambda: Writer(tmp_path / "log", **wrong)) == said
    assert not (tmp_path / "log").exists()


def test_a_record_that_is_not_bytes_is_refused_with_advice(tmp_path: Path) -> None:
    text: Any = "text"
    with (
        Writer(tmp_path / "log") as writer,
        binlog.open_queue(tmp_path / "queue") as queue,
        PageStore(tmp_path / "pages") as store,
        journal(tmp_path / "journal") as (opened, _),
    ):
        store.create_queue("a")
        with store.transaction() as transaction:
            for use in (
                lambda: writer.append(text),
                lambda: writer.append(text, mode=Mode.FLUSH),
                lambda: writer.append_many([b"x", text]),
                lambda: binlog.Batch.from_records([text]),
                lambda: queue.put(text),
                lambda: opened.append_add(1, 1, text),
                lambda: transaction.put("a", text),
            ):
                assert _raised(use) == "a record is bytes, not str; append text.encode()"
            assert "not NoneType" in _raised(lambda: writer.append(None))  # type: ignore[arg-type]
        for one in (b"xy", "xy", bytearray(b"xy")):
            assert "several records" in _raised(lambda: writer.append_many(one))  # type: ignore[arg-type]  # noqa: B023
    assert binlog.check(tmp_path / "log") == []


def test_wrong_starts_are_refused_with_the_valid_ones(tmp_path: Path) -> None:
    Writer(tmp_path / "log").close()
    for wrong in ("now", "1:", ""):
        said = _raised(lambda: Reader(tmp_path / "log", wrong))  # noqa: B023
        assert said == f"start is a ref such as '1:256', 'beginning' or 'end', not {wrong!r}"
    assert "a timedelta before now" in _raised(lambda: Since("5m"))  # type: ignore[arg-type]
    assert "before is a Ref or its text" in _raised(lambda: binlog.prune(tmp_path / "log", before=5))  # type: ignore[arg-type]

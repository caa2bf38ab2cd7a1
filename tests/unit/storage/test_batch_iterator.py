"""The compiled loop over the records of a batch: no record is lost or repeated, whatever interrupts it."""

from __future__ import annotations

import gc
import itertools
import mmap
import resource
import struct
import sys
import weakref
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Entry, Ref
from binlog.storage.native import BatchIterator
from tests.support.children import Child
from tests.support.logs import frame_all


def _places(records: list[bytes]) -> array[int]:
    return array("I", itertools.accumulate((4 + len(record) for record in records), initial=0))


class Source(BatchIterator):
    """Iterates over the records of `pieces`, a list of lists."""

    def __init__(self, *pieces: list[bytes]) -> None:
        super().__init__(Ref, Entry)
        self.pieces = list(pieces)
        self.before: Callable[[], object] = lambda: None

    def _refill(self) -> bool:
        self.before()
        if not self.pieces:
            return False
        records = self.pieces.pop(0)
        self._load(7, 256, frame_all(records), _places(records), 100)
        return True


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_records_are_returned_as_bytes_and_as_entries(records: list[bytes]) -> None:
    data, places = frame_all(records), _places(records)
    plain = BatchIterator()
    plain._load(1, 256, data, places, None)
    assert list(plain) == records
    entries = BatchIterator(Ref, Entry)
    entries._load(2, 2**40, data, places, None)
    assert list(entries) == [
        Entry(Ref(2, 2**40 + place), record) for place, record in zip(places, records, strict=False)
    ]


def test_entries_and_refs_equal_those_made_in_python() -> None:
    [entry] = Source([b"data"])
    same = Entry(Ref(7, 256), b"data")
    assert (type(entry), type(entry.ref), type(entry.data)) == (Entry, Ref, bytes)
    assert (entry, hash(entry), hash(entry.ref)) == (same, hash(same), hash(same.ref))
    assert (repr(entry), str(entry.ref), entry.next_ref) == (repr(same), "7:256", Ref(7, 264))
    assert {same.ref: "found"}[entry.ref] == "found"
    assert entry._replace(data=b"") == Entry(same.ref, b"")


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 5000), st.sampled_from(("entry", "ref", "data", "nothing"))), max_size=9),
        max_size=4,
    )
)
def test_a_kept_entry_never_changes(steps: list[list[tuple[int, str]]]) -> None:
    """An entry without other references is reused for a later record, and so is its ref."""
    iterator, kept, expected = BatchIterator(Ref, Entry), list[object](), list[object]()
    for number, step in enumerate(steps):
        records = [index.to_bytes(2) * (size // 2) for index, (size, _) in enumerate(step)]
        places = _places(records)
        iterator._load(number, 256, frame_all(records), places, None)
        for (_, keep), place, record in zip(step, places, records, strict=False):
            entry, right = next(iterator), Entry(Ref(number, 256 + place), record)
            assert entry == right
            kept.append({"entry": entry, "ref": entry.ref, "data": entry.data, "nothing": None}[keep])
            expected.append({"entry": right, "ref": right.ref, "data": right.data, "nothing": None}[keep])
    assert kept == expected


@pytest.mark.parametrize(("size", "is_kept"), [(4096, sys.version_info < (3, 14)), (4097, False)])
def test_a_small_entry_is_reused(size: int, is_kept: bool) -> None:
    """Except in Python 3.14, whose tuples store their hash."""
    iterator, alone = Source([bytes(size)] * 3), object()
    first = next(iterator)
    assert sys.getrefcount(first) == sys.getrefcount(alone) + is_kept
    first_id = id(first)
    first = next(iterator)
    del first
    assert (id(next(iterator)) == first_id) or not is_kept


def test_position_and_remaining_count() -> None:
    source = Source([b"a", b"bc"])
    assert (source._next, source._left) == (None, 0)
    next(source)
    assert (source._next, source._left) == ((7, 261, 101), 1)
    next(source)
    assert (source._next, source._left) == ((7, 267, 102), 0)
    source._unload()
    assert source._next is None
    source._load(7, 256, b"", array("I", [0]), None)
    assert (source._next, list(source)) == ((7, 256, None), [])


def test_an_exhausted_iterator_resumes_if_there_is_more() -> None:
    source = Source([b"1"], [], [b"2"])
    assert iter(source) is source
    assert [entry.data for entry in source] == [b"1", b"2"]
    assert list(source) == []
    source.pieces.append([b"3"])
    assert [entry.data for entry in source] == [b"3"]


def test_an_error_of_refill_is_raised_and_the_next_call_resumes() -> None:
    def fail() -> None:
        raise OSError("once")

    source = Source([b"1"], [b"2"])
    assert next(source).data == b"1"
    source.before = fail
    with pytest.raises(OSError, match="once"):
        next(source)
    source.before = lambda: None
    assert [entry.data for entry in source] == [b"2"]


@given(st.binary(max_size=40), st.lists(st.integers(0, 60) | st.integers(0, 2**32 - 1), min_size=1, max_size=6))
def test_offsets_outside_of_the_data_are_refused(data: bytes, places: list[int]) -> None:
    iterator = BatchIterator()
    iterator._load(1, 256, data, array("I", places), None)
    for start, end in itertools.pairwise(places):
        if start + 4 <= end <= len(data):
            assert next(iterator) == data[start + 4 : end]
        else:
            with pytest.raises(ValueError, match="places"):
                next(iterator)
            return
    assert list(iterator) == []


@pytest.mark.parametrize(
    "arguments", [(Ref,), (Ref, int), (int, Entry), (1, 2), (Ref, None)], ids=lambda arguments: str(len(arguments))
)
def test_types_that_are_no_tuples_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        BatchIterator(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (1, 256, "text", b"\0\0\0\0", None),
        (1, 256, bytearray(4), b"\0\0\0\0", None),
        (1, -1, b"", b"\0\0\0\0", None),
        (1, 256, b"", "text", None),
        (1, 256, b"", b"\0\0\0\0", "text"),
        (1, 256, b"", b"\0\0\0\0"),
    ],
)
def test_a_failed_load_leaves_the_loaded_batch(arguments: tuple[Any, ...]) -> None:
    source = Source([b"1", b"2"])
    next(source)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        source._load(*arguments)
    assert next(source).data == b"2"


@pytest.mark.slow
def test_no_references_leak() -> None:
    records = [b"x" * 600] * 50
    data, places = frame_all(records), _places(records)
    number = 10**20

    def go() -> None:
        iterator = BatchIterator(Ref, Entry)
        for _ in range(20):
            iterator._load(number, 256, data, places, 5)
            next(iterator), iterator._next, iterator._left
            list(itertools.islice(iterator, 30))
        with pytest.raises(TypeError):
            iterator._load(number, 256, data, "text", 5)

    def counts() -> tuple[int, ...]:
        gc.collect()
        return tuple(map(sys.getrefcount, (number, data, places, Ref, Entry, BatchIterator)))

    go()
    before = counts()
    go()
    assert counts() == before
    places.append(0)  # an array cannot grow while its buffer is exported


def test_an_iterator_in_a_cycle_is_collected() -> None:
    source = Source([b"1"])
    source.itself = source  # type: ignore[attr-defined]
    gone = weakref.ref(source)
    next(source)
    del source
    gc.collect()
    assert gone() is None


def test_a_finalizer_may_unload_in_the_middle_of_a_record() -> None:
    """Making a tuple may collect garbage, which may run anything."""
    source = Source(*[[b"x" * 100] * 50 for _ in range(200)])
    ran = 0

    class Meddler:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            nonlocal ran
            ran += 1
            source._unload()

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(5000):
            Meddler()
            entry = next(source, None)
            assert source._left >= 0
            if entry is None:
                break
            assert entry.data == b"x" * 100
    finally:
        gc.set_threshold(*before)
    assert ran > 50


@pytest.mark.slow
def test_a_record_is_returned_later_if_memory_was_short() -> None:
    """In a child process, because the limit applies to the whole process."""
    size = 200 << 20

    def read() -> None:
        iterator = BatchIterator(Ref, Entry)
        data = struct.pack(">I", size) + bytes(size) + struct.pack(">I", 1) + b"1"
        iterator._load(1, 256, data, array("I", [0, size + 4, size + 9]), None)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + size // 2, limits[1]))
        with pytest.raises(MemoryError):
            next(iterator)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        first = next(iterator)
        assert (first.ref, len(first.data)) == (Ref(1, 256), size)
        assert [entry.data for entry in iterator] == [b"1"]

    Child(read).join()


def test_a_forked_child_goes_on_with_its_copy() -> None:
    source = Source([b"1", b"2"], [b"3"])
    next(source)

    def rest() -> None:
        assert [entry.data for entry in source] == [b"2", b"3"]

    Child(rest).join()
    assert [entry.data for entry in source] == [b"2", b"3"]


def test_a_finalizer_that_reads_in_the_middle_of_a_record_gets_another_one() -> None:
    """In Python 3.11 making a tuple may run a finalizer.  The current record was returned twice, and the next one
    never."""
    records = [b"%d" % number for number in range(2000)]
    source, found = Source(records), list[bytes]()

    class Meddler:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            found.extend(entry.data for entry in itertools.islice(source, 1))  # type: ignore[attr-defined]

    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        while entry := next(source, None):
            assert isinstance(entry, Entry)
            found.append(entry.data)
            Meddler()
    finally:
        gc.set_threshold(*before)
    assert sorted(found, key=int) == records

"""The disk model of a power cut, against states worked out by hand."""

from __future__ import annotations

import itertools
import random

import pytest

from stress.crash.disk_model.disk import Disk, Node, Span, Tree
from stress.crash.disk_model.states import CHOICES_IN_FULL, choices, enumerate_states
from stress.crash.preloaded.trace import Event, Kind, TraceError
from tests.support.recorded_run import FILE, ROOT, Run

OTHER = 3
A, B, C = b"a" * 512, b"b" * 512, b"c" * 512
BEFORE = {"": Node(ROOT, None), "file": Node(FILE, A + A)}


def left(disk: Disk, span: Span) -> list[Tree]:
    """Return the distinct states of a span."""
    found = {}
    for choice in itertools.product(*(range(unit.condition_count) for unit in span.units)):
        state = disk.state(span, choice)
        found[state.key] = state.tree
    return list(found.values())


def at(disk: Disk, tick: int) -> list[Tree]:
    (span,) = [span for span in disk.spans() if span.first <= tick <= span.last]
    return left(disk, span)


def contents(trees: list[Tree]) -> set[bytes | None]:
    return {tree["file"] for tree in trees}


def test_an_unsynced_write_is_kept_or_lost_sector_by_sector() -> None:
    run = Run()
    run.add(Kind.WRITE, data=B + B)
    disk = Disk(BEFORE, run.events)
    assert contents(at(disk, 0)) == {A + A}
    for tick in (1, 2):
        assert contents(at(disk, tick)) == {A + A, A + B, B + A, B + B}


def test_a_sector_holds_one_of_the_writes_to_it_in_their_order() -> None:
    run = Run()
    run.add(Kind.WRITE, data=b"1")
    run.add(Kind.WRITE, offset=1, data=b"2")
    found = {data[:2] for data in contents(at(Disk(BEFORE, run.events), run.tick)) if data}
    assert found == {b"aa", b"1a", b"12"}


@pytest.mark.parametrize(("tick", "half"), [(0, B[:256] + A[256:]), (1, A[:256] + B[256:])], ids=["first", "last"])
def test_a_sector_may_hold_half_of_a_store_and_a_later_one(tick: int, half: bytes) -> None:
    run = Run()
    run.tick = tick
    run.add(Kind.STORE, data=B)
    assert contents(at(Disk(BEFORE, run.events), run.tick)) == {A + A, half + A, B + A}
    run.add(Kind.STORE, offset=0, data=b"1234")
    found = contents(at(Disk(BEFORE, run.events), run.tick))
    assert found == {A + A, half + A, B + A, b"1234" + B[4:] + A}  # words are whole


def test_a_store_goes_to_the_disk_sector_by_sector_and_is_covered_by_a_sync() -> None:
    run = Run()
    run.add(Kind.STORE, offset=508, data=b"12345678")
    disk = Disk(BEFORE, run.events)
    one, two = A[:508] + b"1234", b"5678" + A[4:]
    assert contents(at(disk, run.tick)) == {A + A, one + A, A + two, one + two}
    run.add(Kind.SYNC)
    assert contents(at(Disk(BEFORE, run.events), run.tick)) == {one + two}


def test_a_sync_covers_the_calls_that_had_ended_before_it_and_only_after_its_end() -> None:
    run = Run()
    run.add(Kind.WRITE, data=B)
    run.add(Kind.SYNC)
    run.add(Kind.WRITE, offset=512, data=C)
    disk = Disk(BEFORE, run.events)
    assert contents(at(disk, 3)) == {A + A, B + A}
    assert contents(at(disk, 4)) == {B + A}
    assert contents(at(disk, 6)) == {B + A, B + C}


def test_a_sync_does_not_cover_a_write_that_was_still_under_way() -> None:
    run = Run()
    run.add(Kind.WRITE, data=B, ticks=5)
    run.add(Kind.SYNC)
    assert contents(at(Disk(BEFORE, run.events), 5)) == {A + A, B + A}


def test_a_sync_of_another_file_covers_nothing() -> None:
    run = Run()
    run.add(Kind.WRITE, data=B)
    run.add(Kind.SYNC, ROOT)
    assert contents(at(Disk(BEFORE, run.events), run.tick)) == {A + A, B + A}


def test_a_file_grows_apart_from_its_bytes() -> None:
    run = Run()
    run.add(Kind.WRITE, offset=1024, data=B)
    zeros = bytes(512)
    assert contents(at(Disk(BEFORE, run.events), run.tick)) == {A + A, A + A + zeros, A + A + B}


def test_an_allocation_and_a_cut_are_sizes_that_may_be_lost() -> None:
    run = Run()
    run.add(Kind.ALLOCATE, offset=1536)
    run.add(Kind.SYNC)
    run.add(Kind.TRUNCATE, offset=512)
    disk = Disk(BEFORE, run.events)
    assert {len(data) for data in contents(at(disk, 2)) if data} == {1024, 1536}
    assert {len(data) for data in contents(at(disk, 4)) if data} == {1536}
    assert {len(data) for data in contents(at(disk, 6)) if data} == {512, 1536}


def test_a_name_is_kept_only_by_a_sync_of_its_directory() -> None:
    run = Run()
    run.add(Kind.CREATE, OTHER, name="other")
    run.add(Kind.SYNC, OTHER)
    run.add(Kind.SYNC, ROOT)
    disk = Disk(BEFORE, run.events)
    assert {"other" in tree for tree in at(disk, 4)} == {True, False}
    assert {"other" in tree for tree in at(disk, 6)} == {True}


def test_a_rename_is_one_change_and_a_link_with_an_unlink_are_two() -> None:
    renamed, linked = Run(), Run()
    renamed.add(Kind.RENAME, name="new", old="file")
    linked.add(Kind.LINK, name="new")
    linked.add(Kind.UNLINK, 0, name="file")
    names = [{tuple(sorted(tree)) for tree in at(Disk(BEFORE, run.events), run.tick)} for run in (renamed, linked)]
    assert names == [{("file",), ("new",)}, {("file",), ("file", "new"), ("new",), ()}]


def test_the_content_of_a_directory_is_lost_with_its_name() -> None:
    run = Run()
    run.add(Kind.MAKE_DIRECTORY, 10, name="log")
    event = Event(Kind.CREATE, 1, 3, 4, 11, 10, "a", 0, "", 0, b"", ())
    disk = Disk(BEFORE, [*run.events, event])
    assert {tuple(sorted(tree)) for tree in at(disk, 4)} == {("file",), ("file", "log"), ("file", "log", "log/a")}


def test_a_new_file_may_have_the_inode_of_a_removed_one() -> None:
    run = Run()
    run.add(Kind.CREATE, OTHER, name="one")
    run.add(Kind.WRITE, OTHER, data=b"first")
    run.add(Kind.UNLINK, OTHER, name="one")
    run.add(Kind.SYNC, ROOT)
    run.add(Kind.CREATE, OTHER, name="two")
    run.add(Kind.WRITE, OTHER, data=b"second")
    run.add(Kind.SYNC, OTHER)
    run.add(Kind.SYNC, ROOT)
    disk = Disk(BEFORE, run.events)
    assert at(disk, run.tick) == [{"file": BEFORE["file"].data, "two": b"second"}]
    assert b"first" not in {tree.get("two") for span in disk.spans() for tree in left(disk, span)}


def test_many_units_are_tried_whole_one_by_one_and_at_random_and_always_the_same() -> None:
    run = Run()
    run.add(Kind.WRITE, data=bytes(range(1, 13)) * 512)
    disk = Disk(BEFORE, run.events)
    units = disk.spans()[-1].units
    assert len(units) == 13  # twelve sectors and the size
    tried = list(choices(units, random.Random("a seed")))
    assert len(tried) == 2 + 2 * 13 + CHOICES_IN_FULL
    assert len(set(tried)) > 80
    assert {sum(choice) for choice in tried[:2]} == {0, 13}
    assert {sum(choice) for choice in tried[2:28]} == {1, 12}
    one, other = ([choice for _, _, choice in enumerate_states(disk, "seed")] for _ in range(2))
    assert one == other
    assert one != [choice for _, _, choice in enumerate_states(disk, "another")]


def test_many_states_of_a_moment_are_sampled_with_all_kept_and_all_lost_among_them() -> None:
    run = Run()
    run.add(Kind.WRITE, data=bytes(range(1, 13)) * 512)
    found = [choice for _, _, choice in enumerate_states(Disk(BEFORE, run.events), "seed", 10)]
    assert len(found) == 1 + 10  # of the moment before it, and of all after
    assert {(0,) * 13, (1,) * 13} < set(found)


def test_a_write_to_an_unknown_file_is_refused() -> None:
    run = Run()
    run.add(Kind.WRITE, OTHER, data=A)
    with pytest.raises(TraceError, match="unknown file, inode 3"):
        Disk(BEFORE, run.events)


def test_shared_memory_is_no_part_of_the_disk() -> None:
    run = Run()
    run.add(Kind.MEMORY, OTHER)
    run.add(Kind.ALLOCATE, OTHER, offset=4096)
    assert at(Disk(BEFORE, run.events), run.tick) == [{"file": A + A}]

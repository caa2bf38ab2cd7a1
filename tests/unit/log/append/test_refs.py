"""Refs: the refs of one call's records, without an object for each."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest

from binlog import Ref, Refs, Writer


def _refs(log: Path) -> Refs:
    with Writer(log) as writer:
        writer.append(b"before")
        return writer.append_many([b"", b"1", bytearray(b"22")])


PLACES = [Ref(1, 266), Ref(1, 270), Ref(1, 275)]


def test_refs_are_a_sequence(log: Path) -> None:
    refs = _refs(log)
    assert len(refs) == 3
    assert list(refs) == PLACES
    assert [refs[at] for at in (0, 2, -1, -3)] == [PLACES[at] for at in (0, 2, -1, -3)]
    assert refs[1:] == PLACES[1:]
    assert refs[::-1] == PLACES[::-1]
    assert Ref(1, 270) in refs
    assert refs.index(Ref(1, 275)) == 2
    assert type(refs[0]) is Ref


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_after_the_last_ref_raises(log: Path, index: int) -> None:
    with pytest.raises(IndexError):
        _refs(log)[index]


def test_refs_equal_the_same_refs_in_any_sequence(log: Path) -> None:
    refs = _refs(log)
    assert refs == PLACES
    assert refs == PLACES
    assert refs == tuple(PLACES)
    assert refs != PLACES[:2]
    assert refs != [*PLACES[:2], Ref(2, 275)]
    assert refs != 3
    with pytest.raises(TypeError):
        hash(refs)


def test_refs_have_a_readable_repr(log: Path) -> None:
    assert repr(_refs(log)) == "<binlog.Refs of 3 from 1:266 to 1:275>"
    with Writer(log) as writer:
        assert repr(writer.append_many([])) == "<binlog.Refs of 0>"


def test_refs_can_be_pickled_and_copied(log: Path) -> None:
    refs = _refs(log)
    for other in (pickle.loads(pickle.dumps(refs)), copy.copy(refs), copy.deepcopy(refs)):
        assert type(other) is Refs
        assert other == PLACES

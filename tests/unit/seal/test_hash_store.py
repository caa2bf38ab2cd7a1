"""The store of hashes gives each node of the tree, however its leaves were added."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog.errors import SealError
from binlog.format.seal.tree import consistency_proof, inclusion_proof, leaf_hash, root_hash
from binlog.seal import hash_store
from binlog.seal.hash_store import HashStore
from binlog.storage.directory import Directory
from tests.support.trees import nodes_of, tree_hash

LEAVES = [leaf_hash(b"%d" % number) for number in range(3000)]


@pytest.fixture
def directory(in_memory: Path) -> Iterator[Directory]:
    with Directory(str(in_memory)) as opened:
        yield opened


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.integers(0, 700), max_size=8), st.data())
@pytest.mark.slow
def test_each_node_is_that_of_the_definition(directory: Directory, counts: list[int], data: st.DataObject) -> None:
    for name in directory.names():
        directory.remove(name)
    store = HashStore(directory)
    for count in counts:
        added = LEAVES[store.size : store.size + count]
        store.append(b"".join(added))
        if data.draw(st.booleans()):
            store.sync()
            store = HashStore(directory, store.size)
    size, node = store.size, nodes_of(LEAVES)
    assert size == min(sum(counts), len(LEAVES))
    for old in {0, size, *data.draw(st.lists(st.integers(0, size), max_size=5))}:
        assert root_hash(old, store.node) == tree_hash(LEAVES[:old])
        assert consistency_proof(old, size, store.node) == consistency_proof(old, size, node)
        if old < size:
            assert inclusion_proof(old, size, store.node) == inclusion_proof(old, size, node)
            assert store.leaf(old) == LEAVES[old]
    assert store.leaves(0, size + 5) == b"".join(LEAVES[:size])


def test_a_tree_is_continued_from_a_smaller_size(directory: Directory) -> None:
    """As after a crash before a checkpoint: what is beyond the size is overwritten."""
    HashStore(directory).append(b"".join(LEAVES[1000:2000]))
    store = HashStore(directory)
    store.append(b"".join(LEAVES[:700]))
    again = HashStore(directory, 300)
    again.append(b"".join(LEAVES[300:900]))
    assert root_hash(900, again.node) == tree_hash(LEAVES[:900])


def test_missing_hashes_are_named(directory: Directory) -> None:
    store = HashStore(directory)
    store.append(b"".join(LEAVES[:600]))
    with pytest.raises(SealError, match="level 0 are missing from 600"):
        store.node(0, 600)
    directory.remove("1.00000000")
    with pytest.raises(SealError, match="level 1 are missing from 0"):
        root_hash(600, store.node)


def test_files_have_a_part_of_the_hashes_each(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_store, "FILE_HASHES", 256)
    store = HashStore(directory)
    store.append(b"".join(LEAVES))
    assert sorted(directory.names()) == [*(f"0.{number:08d}" for number in range(12)), "1.00000000"]
    assert root_hash(3000, store.node) == tree_hash(LEAVES)


def test_leaves_are_read_in_parts(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_store, "_LEAVES_AT_ONCE", 100)
    store = HashStore(directory)
    store.append(b"".join(LEAVES[:2000]))
    for first, count in ((0, 70), (70, 70), (140, 500), (0, 1), (1990, 70), (2000, 1)):
        assert store.leaves(first, count) == b"".join(LEAVES[first : min(first + count, 2000)])
    store.append(b"".join(LEAVES[2000:2050]))
    assert store.leaves(1990, 70) == b"".join(LEAVES[1990:2050])
    directory.remove("0.00000000")
    assert HashStore(directory, 2050).leaves(0, 70) == b""

"""The hash tree equals its definition; proofs show what they should, and nothing else."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog import Batch
from binlog._codec import hash_pairs
from binlog.format.seal import tree
from binlog.format.seal.tree import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    includes,
    inclusion_proof,
    is_consistent,
    leaf_hash,
    leaf_hashes,
    node_hash,
    parent_hashes,
    perfect_subtrees,
    root_hash,
)
from tests.support.trees import nodes_of, tree_hash

LEAVES = [leaf_hash(b"%d" % number) for number in range(300)]
NODE = nodes_of(LEAVES)
sizes = st.integers(1, len(LEAVES))


def test_the_hashes_are_those_of_the_standard() -> None:
    assert sha256(b"").digest() == EMPTY_ROOT
    assert leaf_hash(b"x") == sha256(b"\0x").digest()
    assert node_hash(LEAVES[0], LEAVES[1]) == sha256(b"\1" + LEAVES[0] + LEAVES[1]).digest()


@given(st.integers(0, len(LEAVES)))
def test_a_root_equals_its_definition(size: int) -> None:
    assert root_hash(size, NODE) == tree_hash(LEAVES[:size])
    assert sum(1 << level for level, _ in perfect_subtrees(0, size)) == size


@given(st.data())
@pytest.mark.slow
def test_an_inclusion_proof_shows_its_leaf_alone(data: st.DataObject) -> None:
    size = data.draw(sizes)
    index = data.draw(st.integers(0, size - 1))
    root, proof = root_hash(size, NODE), inclusion_proof(index, size, NODE)
    assert includes(LEAVES[index], index, size, proof, root)
    other = data.draw(st.integers(0, len(LEAVES) - 1).filter(lambda number: number != index))
    assert not includes(LEAVES[other], index, size, proof, root)
    assert not includes(LEAVES[index], other, size, proof, root)
    assert not includes(LEAVES[index], index, size, [*proof, root], root)
    assert not includes(LEAVES[index], index, size, proof[:-1], root) or not proof
    if proof:
        changed = data.draw(st.integers(0, len(proof) - 1))
        wrong = [bytes(32) if place == changed else each for place, each in enumerate(proof)]
        assert not includes(LEAVES[index], index, size, wrong, root)


@given(st.data())
def test_a_consistency_proof_shows_a_prefix_alone(data: st.DataObject) -> None:
    size = data.draw(sizes)
    old = data.draw(st.integers(0, size))
    root, old_root = root_hash(size, NODE), root_hash(old, NODE)
    proof = consistency_proof(old, size, NODE)
    assert is_consistent(old, old_root, size, root, proof)
    assert not is_consistent(old, bytes(32), size, root, proof)
    assert not is_consistent(old, old_root, size, root, [*proof, root])
    if 0 < old < size:
        assert not is_consistent(old, old_root, size, bytes(32), proof)
        assert not is_consistent(old, old_root, size, root, proof[1:])
        other = data.draw(st.integers(0, size).filter(lambda number: number != old))
        assert not is_consistent(other, old_root, size, root, proof)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_many_hashes_at_once_equal_those_one_by_one(records: list[bytes]) -> None:
    batch = Batch.from_records(records)
    expected = b"".join(map(leaf_hash, records))
    assert leaf_hashes(batch.data, batch.offsets) == expected
    assert parent_hashes(b"".join(LEAVES)) == b"".join(NODE(1, index) for index in range(len(LEAVES) // 2))
    with pytest.MonkeyPatch.context() as patch:  # as without a libcrypto
        patch.setattr(tree, "hash_leaves", lambda data, offsets: None)
        patch.setattr(tree, "hash_pairs", lambda hashes: None)
        assert leaf_hashes(batch.data, batch.offsets) == expected
        assert parent_hashes(b"".join(LEAVES)) == b"".join(NODE(1, index) for index in range(len(LEAVES) // 2))


def test_pythons_libcrypto_computes_the_hashes() -> None:
    assert hash_pairs(b"") == b""


def test_offsets_outside_of_the_data_are_refused() -> None:
    batch = Batch.from_records([b"one", b"two"])
    with pytest.raises(ValueError, match="not those of records"):
        leaf_hashes(bytes(batch.data)[:-1], batch.offsets)


@given(st.lists(st.integers(0, 70), max_size=6))
def test_a_tree_that_grows_has_the_root_of_its_definition(counts: list[int]) -> None:
    grown = Frontier()
    for count in counts:
        grown.add(b"".join(LEAVES[grown.size : grown.size + count]))
        assert grown.root() == tree_hash(LEAVES[: grown.size])
        assert Frontier(grown.size, NODE).root() == grown.root()


def test_what_is_not_in_the_tree_has_no_proof() -> None:
    for index, size in ((0, 0), (-1, 5), (5, 5)):
        with pytest.raises(ValueError, match="has no leaf"):
            inclusion_proof(index, size, NODE)
        assert not includes(LEAVES[0], index, size, [], bytes(32))
    with pytest.raises(ValueError, match="does not begin with"):
        consistency_proof(6, 5, NODE)
    assert not is_consistent(6, bytes(32), 5, bytes(32), [])
    assert not is_consistent(1, bytes(32), 1 << 62, bytes(32), [])

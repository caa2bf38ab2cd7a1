"""The hash tree of RFC 6962, section 2.1, with SHA-256: roots, inclusion proofs and consistency proofs.

A tree of n leaves is made of perfect subtrees.  Node (level, index) is the root of the perfect subtree of the 2**level
leaves from index * 2**level on, so (0, i) is the hash of leaf i.  The functions here get nodes from a callable, so
that a caller need not hold a tree in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from binlog._codec import hash_leaves, hash_pairs
from binlog.format.record import LENGTH_BYTES

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()
# No proof has more hashes, because sizes are below 2**62.
SIZE_MAX = (1 << 62) - 1
PROOF_HASHES_MAX = 63

Node = Callable[[int, int], bytes]
"""Returns the hash of node (level, index), which must be within the tree."""


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf, given its bytes."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node, given those of its two children."""
    return sha256(b"\x01" + left + right).digest()


def parent_hashes(hashes: bytes) -> bytes:
    """Return the parent of each two consecutive hashes; hashes are given and returned one after the other."""
    found = hash_pairs(hashes)
    if found is not None:
        return found
    size = 2 * HASH_BYTES
    return b"".join([sha256(b"\x01" + hashes[at : at + size]).digest() for at in range(0, len(hashes), size)])


def leaf_hashes(data: bytes | memoryview, offsets: memoryview) -> bytes:
    """Return the leaf hash of each record of a batch, one after the other.  data, offsets: see Batch."""
    found = hash_leaves(data, offsets)
    if found is not None:
        return found
    starts = itertools.pairwise(offsets)
    return b"".join([leaf_hash(bytes(data[start + LENGTH_BYTES : end])) for start, end in starts])


def perfect_subtrees(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the largest perfect subtrees that fill the leaves from `start` to `end`, in order, as (level, index).

    start: a multiple of the largest power of two that is less than end - start, as each bound in a tree is.
    """
    while start < end:
        level = (end - start).bit_length() - 1
        yield level, start >> level
        start += 1 << level


def subtree_hash(start: int, end: int, node: Node) -> bytes:
    """Return the hash of the subtree of the leaves from `start` to `end`; see `perfect_subtrees`."""
    *others, last = (node(level, index) for level, index in perfect_subtrees(start, end))
    for left in reversed(others):
        last = node_hash(left, last)
    return last


def root_hash(size: int, node: Node) -> bytes:
    """Return the root of a tree of this size."""
    return subtree_hash(0, size, node) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, node: Node) -> list[bytes]:
    """Return the proof that leaf `index` is in the tree of this size, from the leaf's sibling up.

    Raises: ValueError if the tree has no such leaf.
    """
    return [subtree_hash(*step.sibling, node) for step in reversed(_steps_to_leaf(index, size))]


def consistency_proof(old: int, size: int, node: Node) -> list[bytes]:
    """Return the proof that the tree of size `old` is the beginning of the tree of this size; empty if `old` is 0.

    Raises: ValueError if `old` is larger.
    """
    steps, (start, end) = _steps_to_size(old, size)
    first = [] if start == 0 else [subtree_hash(start, end, node)]
    return first + [subtree_hash(*step.sibling, node) for step in reversed(steps)]


def includes(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether a proof shows that the leaf with this hash is leaf `index` of the tree of this size and root."""
    if not 0 <= index < size <= SIZE_MAX:
        return False
    steps = _steps_to_leaf(index, size)
    if len(steps) != len(proof):
        return False
    found = leaf
    for step, sibling in zip(reversed(steps), proof, strict=True):
        found = node_hash(found, sibling) if step.went_left else node_hash(sibling, found)
    return found == root


def is_consistent(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether a proof shows that the tree of size `old` and root `old_root` is how the other one begins."""
    if not 0 <= old <= size <= SIZE_MAX:
        return False
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    steps, (start, _) = _steps_to_size(old, size)
    rest = list(proof)
    if len(rest) != len(steps) + (start > 0):
        return False
    found_old = found = rest.pop(0) if start else old_root
    for step, sibling in zip(reversed(steps), rest, strict=True):
        if step.went_left:
            found = node_hash(found, sibling)
        else:
            found_old, found = node_hash(sibling, found_old), node_hash(sibling, found)
    return (found_old, found) == (old_root, root)


class Frontier:
    """A tree that grows, of which only the roots of its largest perfect subtrees are held."""

    def __init__(self, size: int = 0, node: Node | None = None) -> None:
        """Begin with a tree of this size.  Raises: the errors of `node`."""
        self.size = size
        # By level.  Each is the left child of a subtree that is not full yet.
        self._subtrees: dict[int, bytes] = {}
        if node is not None:
            self._subtrees = {level: node(level, index) for level, index in perfect_subtrees(0, size)}

    def add(self, leaves: bytes) -> None:
        """Add leaves, given their hashes one after the other."""
        self.size += len(leaves) // HASH_BYTES
        level, hashes = 0, leaves
        while hashes:
            hashes = self._subtrees.pop(level, b"") + hashes
            if len(hashes) // HASH_BYTES % 2:
                self._subtrees[level], hashes = hashes[-HASH_BYTES:], hashes[:-HASH_BYTES]
            hashes = parent_hashes(hashes)
            level += 1

    def root(self) -> bytes:
        """Return the root."""
        if not self._subtrees:
            return EMPTY_ROOT
        first, *others = sorted(self._subtrees)
        found = self._subtrees[first]
        for level in others:
            found = node_hash(self._subtrees[level], found)
        return found


class _Step(NamedTuple):
    """A step from a subtree down to one of its two children.  sibling: the other child's leaves, start and end."""

    sibling: tuple[int, int]
    went_left: bool


def _steps_to_leaf(index: int, size: int) -> list[_Step]:
    """Return the steps from the root of a tree to a leaf."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} leaves has no leaf {index}")
    steps, (start, end) = [], (0, size)
    while end - start > 1:
        middle = _middle(start, end)
        steps.append(
            _Step((middle, end), went_left=True) if index < middle else _Step((start, middle), went_left=False)
        )
        start, end = (start, middle) if index < middle else (middle, end)
    return steps


def _steps_to_size(old: int, size: int) -> tuple[list[_Step], tuple[int, int]]:
    """Return the steps from the root of a tree to the subtree that ends with the tree of size `old`, and its bounds."""
    if not 0 <= old <= size:
        raise ValueError(f"a tree of {size} leaves does not begin with one of {old}")
    steps, (start, end) = [], (0, size)
    while old and old != end:
        middle = _middle(start, end)
        steps.append(_Step((middle, end), went_left=True) if old <= middle else _Step((start, middle), went_left=False))
        start, end = (start, middle) if old <= middle else (middle, end)
    return steps, (start, end)


def _middle(start: int, end: int) -> int:
    """Return where the left child of a subtree ends: it has the largest power of two below the count of leaves."""
    return start + (1 << ((end - start - 1).bit_length() - 1))

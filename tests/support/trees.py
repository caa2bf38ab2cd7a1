"""Hash trees for tests, by the definition in RFC 6962, section 2.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """Return the root of a tree, given the hashes of its leaves."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while 2 * middle < len(leaves):
        middle *= 2
    return sha256(b"\x01" + tree_hash(leaves[:middle]) + tree_hash(leaves[middle:])).digest()


def nodes_of(leaves: Sequence[bytes]) -> Callable[[int, int], bytes]:
    """Return a function that gives node (level, index) of the tree; each is computed once."""
    known: dict[tuple[int, int], bytes] = {}

    def node(level: int, index: int) -> bytes:
        if level == 0:
            return leaves[index]
        if (level, index) not in known:
            assert (index + 1) << level <= len(leaves), "outside of the tree"
            both = node(level - 1, 2 * index) + node(level - 1, 2 * index + 1)
            known[level, index] = sha256(b"\x01" + both).digest()
        return known[level, index]

    return node

"""What the bytes of a journal's columns are called in rows, and which columns are null for which kinds of records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from binlog.journal import RecordKind, RecordState

BYTES = 256

Names = tuple[str | None, ...]
"""What each byte is called; None where a row has null."""

_ENDS = (RecordKind.PREPARE, RecordKind.COMMIT, RecordKind.ROLLBACK)
_BODIES = (RecordKind.ADD, RecordKind.UPDATE, RecordKind.ADD_TX, RecordKind.UPDATE_TX)
_TRANSACTIONAL = (RecordKind.ADD_TX, RecordKind.UPDATE_TX, RecordKind.DELETE_TX, *_ENDS)

# By the column of a row that is null for some kinds: the kinds for which it is not.
KINDS_WITH: dict[str, Collection[int]] = {
    "id": [kind for kind in RecordKind if kind not in _ENDS],
    "transaction": _TRANSACTIONAL,
    "user_type": _BODIES,
    "data": (*_BODIES, RecordKind.DELETE_TX, RecordKind.PREPARE),
}


def _names(of: Mapping[Any, str]) -> Names:
    return tuple(of.get(byte) for byte in range(BYTES))


# By the column of a row.
NAMES: dict[str, Names] = {
    "kind": _names({kind: kind.name.lower() for kind in RecordKind}),
    "state": _names({state: state.name.lower() for state in RecordState}),
}

# What a transaction came to, by the state of any record of it; where that is not here, it is committed.
_TRANSACTIONS = {
    RecordState.OPEN: "open",
    RecordState.PREPARED: "prepared",
    RecordState.ROLLED_BACK: "rolled_back",
    RecordState.FAILED: "failed",
}


def transaction_states(kind: int) -> Names:
    """What the transaction of a record of a kind came to, by the record's state."""
    if kind not in _TRANSACTIONAL:
        return _names({})
    ended = "rolled_back" if kind == RecordKind.ROLLBACK else "committed"
    names = {state: _TRANSACTIONS.get(state, ended) for state in RecordState}
    if kind == RecordKind.PREPARE:
        del names[RecordState.VOID]  # another one told what came of it
    return _names(names)

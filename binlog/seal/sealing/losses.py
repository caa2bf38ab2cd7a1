"""Finds the losses of a log since it was sealed: records that are gone, and fillers that `repair` wrote for them."""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.record import Ref
from binlog.format.seal.statement import Loss
from binlog.format.seal.tree import HASH_BYTES
from binlog.log.maintain.fillers import is_filler
from binlog.seal.hash_store import HashStore
from binlog.seal.leaf_reader import BatchPart, LeafReader


class Losses(NamedTuple):
    """losses: leaves that are no longer in the log.  fillers: the first leaf, and the one after the last."""

    losses: list[Loss]
    fillers: list[tuple[int, int]]


class _Run(NamedTuple):
    """Consecutive leaves that differ from the sealed ones.  ref: of the first."""

    first: int
    end: int
    ref: Ref


def find_losses(path: str, reader: LeafReader, store: HashStore, start: Ref, leaf: int, size: int) -> Losses:
    """Return the losses among the leaves up to `size`.

    start, leaf: the first record of the log that is sealed.
    Raises: SealError if records were changed, and not lost: a later record is as it was sealed.
    """
    found = Losses([], [])
    changed: _Run | None = None
    next_ref = start
    for part in reader.parts(start, leaf):
        if part.leaf is None:
            continue
        sealed = part.before(size)
        if len(sealed) == 0:
            break
        if leaf < part.leaf and not reader.is_lost(leaf, part.leaf):
            found.losses.append(Loss(leaf, part.leaf, part.ref(0)))
        leaf = part.leaf
        for run in _runs(path, sealed, leaf, store, found.fillers):
            if changed is not None and (run.first != changed.end):
                _refuse(changed)
            changed = run if changed is None else changed._replace(end=run.end)
        leaf += len(sealed)
        if changed is not None and changed.end != leaf:
            _refuse(changed)
        next_ref = sealed.end_ref()
    if changed is not None:
        found.losses.append(Loss(changed.first, size, changed.ref))
    elif leaf < size and not reader.is_lost(leaf, size):
        found.losses.append(Loss(leaf, size, next_ref))
    return found


def _refuse(run: _Run) -> None:
    raise SealError(f"the records {run.first} to {run.end - 1}, from {run.ref} on, were changed; that is not a loss")


def _runs(path: str, part: BatchPart, leaf: int, store: HashStore, fillers: list[tuple[int, int]]) -> list[_Run]:
    """Return the runs of records that differ from the sealed ones; add those of fillers to `fillers`."""
    hashes, known = part.hashes(), store.hashes(0, leaf, len(part))
    runs: list[_Run] = []
    records = list(part.batch) if hashes != known else []
    for place in range(len(part) if records else 0):
        at = slice(place * HASH_BYTES, (place + 1) * HASH_BYTES)
        if hashes[at] == known[at]:
            continue
        number = leaf + place
        if is_filler(path, part.ref(place), records[part.begin + place]):
            if fillers and fillers[-1][1] == number:
                fillers[-1] = (fillers[-1][0], number + 1)
            else:
                fillers.append((number, number + 1))
        elif runs and runs[-1].end == number:
            runs[-1] = runs[-1]._replace(end=number + 1)
        else:
            runs.append(_Run(number, number + 1, part.ref(place)))
    return runs

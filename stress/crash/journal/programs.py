"""What is done with a journal that is to break: steps of chance, of the kinds that a run is about."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from stress.crash.journal.actor import Actor

Step = Callable[[Actor, Journal, random.Random, "Syncs"], None]
Syncs = tuple[Sync, ...]

WAITING: Syncs = (Sync.WAIT,)
MIXED: Syncs = (Sync.WAIT, Sync.FUTURE, Sync.LATER)


def add(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """A record."""
    actor.add(journal, chance.choice(syncs))


def update(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """To one that is there, else a new one."""
    if actor.alive:
        actor.update(journal, chance.choice(actor.alive), chance.choice(syncs))
    else:
        add(actor, journal, chance, syncs)


def delete(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """One that is there, most often an old one; where there are few, a new one."""
    if len(actor.alive) > 1:
        old = actor.alive[: chance.randint(1, len(actor.alive))]
        actor.delete(journal, chance.choice(old), chance.choice(syncs))
    else:
        add(actor, journal, chance, syncs)


def begin(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> tuple[int, list[int]]:
    """A transaction of some records; its id, and those that it adds.

    What it updates or deletes nobody else does meanwhile: that is taken from those that may be.
    """
    tx_id = actor.new_id()
    added = []
    for _ in range(chance.randint(2, 5)):
        sync = Sync.LATER if chance.random() < 0.8 else chance.choice(syncs)
        kind = chance.choices(("add", "update", "delete"), (3, 1, 1))[0]
        if kind == "add" or len(actor.alive) < 2:
            added.append(actor.add_tx(journal, tx_id, sync))
        elif kind == "update":
            record_id = chance.choice(actor.alive)
            actor.alive.remove(record_id)
            actor.update_tx(journal, tx_id, record_id, sync)
        else:
            record_id = chance.choice(actor.alive)
            actor.alive.remove(record_id)
            actor.delete_tx(journal, tx_id, record_id, sync)
        if chance.random() < 0.3:
            add(actor, journal, chance, syncs)  # between those of the transaction
    return tx_id, added


def transaction(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """One that is committed or rolled back, some of them prepared before."""
    tx_id, added = begin(actor, journal, chance, syncs)
    if chance.random() < 0.3:
        actor.prepare(journal, tx_id, chance.choice(syncs))
    if chance.random() < 0.75:
        actor.commit(journal, tx_id, chance.choice(syncs))
        actor.alive += added
    else:
        actor.rollback(journal, tx_id, chance.choice(syncs))


def leave(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """A transaction that nobody ends, or that is prepared, with or without records."""
    if chance.random() < 0.2:
        tx_id = actor.new_id()
    else:
        tx_id, _ = begin(actor, journal, chance, syncs)
        if chance.random() < 0.3:
            return
    actor.prepare(journal, tx_id, chance.choice(syncs))
    actor.prepared.append(tx_id)


def end_prepared(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """Commit one that is prepared, or roll it back; where there is none, a new record."""
    if actor.prepared:
        tx_id = actor.prepared.pop(chance.randrange(len(actor.prepared)))
        end = actor.commit if chance.random() < 0.6 else actor.rollback
        end(journal, tx_id, chance.choice(syncs))
    else:
        add(actor, journal, chance, syncs)


def reclaim(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """Free what is dead, now."""
    journal.reclaim()


def sweep(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """Delete all but the last ones with a transaction, for which nobody waits, and free what is dead by that.

    Were a file freed before the commit is on the disk, a crash would leave half of the transaction.
    """
    if len(actor.alive) < 4:
        add(actor, journal, chance, syncs)
        return
    tx_id = actor.new_id()
    for record_id in actor.alive[:-2]:
        actor.alive.remove(record_id)
        actor.delete_tx(journal, tx_id, record_id)
    actor.commit(journal, tx_id, Sync.LATER)
    journal.reclaim()


def compact(actor: Actor, journal: Journal, chance: random.Random, syncs: Syncs) -> None:
    """Write anew what is alive."""
    journal.compact()


RECORDS: Mapping[Step, int] = {add: 4, update: 2, delete: 1}
TRANSACTIONS: Mapping[Step, int] = {transaction: 4, add: 1, update: 1, leave: 1, end_prepared: 1}
REUSE: Mapping[Step, int] = {add: 8, update: 2, delete: 4, transaction: 1, reclaim: 1, sweep: 1}
COMPACTION: Mapping[Step, int] = {add: 6, update: 3, delete: 6, transaction: 2, leave: 1, compact: 2, end_prepared: 1}
ONLY_ADDED: Mapping[Step, int] = {add: 4, update: 2}
ALL: Mapping[Step, int] = {**TRANSACTIONS, **COMPACTION, reclaim: 1}


def run(
    actor: Actor,
    journal: Journal,
    chance: random.Random,
    steps: Mapping[Step, int],
    count: int,
    syncs: Syncs = MIXED,
) -> None:
    """So many steps, each drawn by its weight."""
    for step in chance.choices([*steps], [*steps.values()], k=count):
        step(actor, journal, chance, syncs)
        actor.settle(wait=False)

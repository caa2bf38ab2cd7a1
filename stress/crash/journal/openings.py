"""Opening a journal as those do who append to it: what a load tells is marked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
from stress.crash.journal.actor import Actor, Witness
from stress.crash.journal.loads import open_journal
from stress.crash.journal.marks import MarkKind, plain_mark


@contextmanager
def opened(path: Path, options: JournalOptions, witness: Witness, *actors: Actor) -> Iterator[Journal]:
    """A journal, loaded, with what it told marked; the first of the actors has what is there."""
    witness.mark(plain_mark(MarkKind.LOADING))
    journal, told = open_journal(path, options)
    try:
        if told.wrong:
            raise RuntimeError(f"a load told: {told.wrong}")
        for mark in told.marks():
            witness.mark(mark)
        actors[0].go_on_from(told)
        yield journal
    finally:
        journal.close()
    for actor in actors:
        actor.closed()

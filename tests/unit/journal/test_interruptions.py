"""An exception of a signal handler at each point at which one can interrupt a call.

Python runs signal handlers when a function begins, after a call, and when a loop repeats.  A trace function raises in
their place after each such step of the journal's own code.  Afterwards the journal is correct, or refuses all calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import PoisonedError
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from binlog.journal.record import Record
from tests.support.interruptions import Interruption
from tests.support.journals import SMALL, reload

# Large enough that each call shares a buffer with others, and some cut over to another file.
_OPTIONS = replace(SMALL, file_bytes=1024, buffer_bytes=600)
_OUTER = [Record(1, 1, b"first"), Record(2, 1, b"second")]


_CALLS: dict[str, Callable[[Journal], object]] = {
    "add": lambda journal: journal.append_add(3, 1, bytes(400)),
    "add later": lambda journal: journal.append_add(3, 1, bytes(400), sync=Sync.LATER),
    "add and go on": lambda journal: journal.append_add(3, 1, bytes(900)),
    "add with a future": lambda journal: journal.append_add(3, 1, b"", sync=Sync.FUTURE).result(60),
    "update": lambda journal: journal.append_update(2, 1, b"updated"),
    "delete": lambda journal: journal.append_delete(2),
    "join": lambda journal: journal.append_update_tx(9, 2, 1, b"more"),
    "commit": lambda journal: journal.commit(9),
    "prepare": lambda journal: journal.prepare(9, b"XID"),
    "roll back": lambda journal: journal.rollback(9),
}


def _prepared(path: Path) -> Journal:
    journal = Journal(path, _OPTIONS)
    journal.start()
    journal.load()
    for record in _OUTER:
        journal.append_add(*record[:3], sync=Sync.LATER)
    journal.append_add_tx(9, 10, 1, b"in a transaction")
    journal.append_delete_tx(9, 1, sync=Sync.WAIT)
    return journal


def _state(path: Path) -> tuple[object, ...]:
    loaded = reload(path, _OPTIONS)
    assert not loaded.problems
    return loaded.records, loaded.prepared


def _accepts_calls(journal: Journal, *, commits: bool) -> bool:
    """Use the journal again; return whether it accepts everything."""
    assert not journal._guard.held, "no thread may hold it any more"
    try:
        journal.append_add(20, 1, b"behind")
        if commits:
            journal.commit(9)
    except PoisonedError:
        with pytest.raises(PoisonedError):
            journal.append_add(21, 1, b"")
        with pytest.raises(PoisonedError):
            journal.close()
        return False
    journal.close()
    return True


def _allowed(path: Path, call: Callable[[Journal], object], *, commits: bool | None) -> list[tuple[object, ...]]:
    """Return the states with and without the call.  commits: how the transaction ends then; None to leave it open."""
    states = []
    for number, calls in enumerate(([], [call])):
        journal = _prepared(path / str(number))
        for each in calls:
            each(journal)
        if commits is None:
            journal.close()
        else:
            assert _accepts_calls(journal, commits=commits)
        states.append(_state(path / str(number)))
    return states


@pytest.mark.slow
@pytest.mark.parametrize("name", _CALLS)
def test_an_interrupted_call_completes_or_poisons(tmp_path: Path, name: str) -> None:
    call, commits = _CALLS[name], name not in ("commit", "roll back")
    for folder in ("used", "left"):
        (tmp_path / folder).mkdir()
    used = _allowed(tmp_path / "used", call, commits=commits)
    left = _allowed(tmp_path / "left", call, commits=None)
    counts = {True: 0, False: 0}
    for at in range(10_000):
        path = tmp_path / f"at-{at}"
        journal = _prepared(path)
        if not Interruption(at).run(lambda journal=journal: call(journal)):  # type: ignore[misc]
            journal.close()
            break
        goes_on = _accepts_calls(journal, commits=commits)
        counts[goes_on] += 1
        assert _state(path) in (used if goes_on else left), at
    assert counts[True] > 10
    assert counts[False] > 2

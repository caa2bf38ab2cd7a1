"""Judging a state of a store: it is opened, looked at, appended to, closed, opened again and looked at again.

As with a log, what comes of that depends on the state's bytes alone, and whether it is right on what was promised too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from binlog.errors import BinlogError
from binlog.format.commitlog.names import ABORT_FILE
from stress.crash.marks import Values
from stress.crash.store.inspection import Contents, Place, inspect
from stress.crash.store.marks import Expectation, mark_of
from stress.crash.store.messages import Identity, message_of
from stress.crash.store.options import options
from stress.crash.subject import Judging

WRITERS = 100
_JUDGE = 99
_CALLS = (1, 3, 1)  # how many messages the judge appends in each


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a state.

    problems: what is wrong whatever had been promised.  start: of the log, and what it had, when it was opened.
    """

    problems: tuple[str, ...]
    start: int
    messages: Mapping[Identity, Place]


class StoreJudging(Judging[Expectation, Observation]):
    """See the module."""

    def __init__(self, seed: str, marks: list[Values]) -> None:
        """Messages say which they are, so neither is needed."""

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def add(self, expected: Expectation, mark: Values) -> None:
        """Take one more mark into account."""
        expected.add(mark_of(mark))

    def observe(self, path: Path) -> Observation:
        """Open a state, which is changed by that."""
        problems: list[str] = []
        first = Contents(0, 0)
        try:
            first = look_twice(path, problems, writer=_JUDGE)
        except BinlogError as error:
            problems.append(f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - whatever the store raises is what is to be told
            problems.append(f"an error that is none of binlog's: {type(error).__name__}: {error}")
        return Observation(tuple(problems), first.start, first.messages)

    def compare(self, seen: Observation, least: Expectation, most: Expectation) -> list[str]:
        """What is wrong."""
        wrong = list(seen.problems)
        if not least.removed <= seen.start <= most.removing:
            wrong.append(f"the log begins at {seen.start}, not from {least.removed} to {most.removing}")
        promised = {
            identity: place
            for identity, place in least.placed.items()
            if seen.start <= place.offset < least.durable
        }  # fmt: skip
        wrong += [
            f"{which}, promised at {place}, is not there"
            for which, place in promised.items()
            if which not in seen.messages
        ]
        wrong += [
            f"{which} lies at {place}, and was appended at {most.placed[which]}"
            for which, place in seen.messages.items()
            if most.placed.get(which, place) != place
        ]
        wrong += [f"{which} is there, which nobody had tried yet" for which in seen.messages if which not in most.tried]
        return wrong + _in_order(seen, whole=most.removing == 0)

    def crashed(self, least: Expectation, most: Expectation) -> tuple[Values, ...]:
        """What was tried, and what was promised."""
        return tuple(mark.values for mark in (*most.possible(), *least.promised()))


def _in_order(seen: Observation, *, whole: bool) -> list[str]:
    """Each writer's messages are there in its order, and none is missing between them.  whole: none before them."""
    wrong = []
    next_: dict[int, int] = {}
    for writer, index in seen.messages:
        wanted = next_.get(writer, 0 if whole else index)
        if index != wanted:
            wrong.append(f"message {index} of writer {writer} is where {wanted} should be")
        next_[writer] = index + 1
    return wrong


def look_twice(path: Path, problems: list[str], *, writer: int, flush: Flush = Flush.SYNC) -> Contents:
    """Open a store, look at it, append to it, close it, and do all that again; what it had at first.

    writer: of what is appended, none of whose messages may be there; `problems` is added to.
    """
    first = _visit(path, problems, "at first", writer, 0, flush)
    second = _visit(path, problems, "the second time", writer, 1, Flush.ASYNC)
    third = _visit(path, problems, "the third time", writer, 2, Flush.SYNC)
    for before, after, first_index in ((first, second, 0), (second, third, sum(_CALLS))):
        new = {(writer, index) for index in range(first_index, first_index + sum(_CALLS))}
        if (
            after.start != before.start
            or {which: place for which, place in after.messages.items() if which not in new} != before.messages
        ):
            problems.append("what was there is not there, or elsewhere, when it is opened again")
        if missing := new - after.messages.keys():
            problems.append(f"what was appended and closed is not there: {sorted(missing)}")
    return first


def _visit(path: Path, problems: list[str], when: str, writer: int, visit: int, flush: Flush) -> Contents:
    """Open it once, look at it, and append to it."""
    with MessageStore(path, options(flush)) as store:
        contents = inspect(store, writers=WRITERS)
        problems += [f"{when}: {line}" for line in contents.problems]
        index = visit * sum(_CALLS)
        for count in _CALLS:
            messages = [message_of(writer, index + each) for each in range(count)]
            appended = store.append(messages)
            index += count
            if not contents.end <= appended.offset or len(appended.offsets) != count:
                problems.append(
                    f"{when}: {count} messages were appended at {appended}, and the log ended at {contents.end}"
                )
    if (path / ABORT_FILE).exists():
        problems.append(f"{when}: the marker of a crash is there after a clean stop")
    return contents

"""Observing the state of a log and its group after a crash: what is due, what is delivered, and the dead letters.

The state is checked, opened, and compared with a replay of the group's log.  Then all messages are delivered and
acknowledged, in two processes' worth of members; more are appended, and exactly those come.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import binlog
from binlog import Message, Reader, Ref, Writer
from binlog.consumers import GroupControl, read_dead_letters
from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.state_reader import StateReader
from binlog.errors import NotFoundError
from binlog.format.consumers.operation import group_seed
from binlog.log.directory import LogDirectory
from stress.crash.system import ProblemCollector
from stress.crash.systems.group.actor import GROUP, open_group
from stress.crash.systems.group.expectation import Letter
from stress.crash.systems.group.marks import Identity, identity_of, record_of

_CHECKER = 1999
_MINE = [Identity(_CHECKER, number) for number in range(1, 5)]
_BY_HAND = 3
_POISON = "poison"


@dataclass(slots=True)
class Observation:
    """The observation of a state.

    problems: violations that do not depend on the marks.
    in_log: the messages in the log.  due: those that are to be delivered, by the state of the group.
    gone: sequences that the group needs, and that retention removed.
    letters: the dead letters, after everything was delivered.
    """

    problems: list[str] = field(default_factory=list)
    in_log: dict[int, Identity] = field(default_factory=dict)
    due: set[Identity] = field(default_factory=set)
    gone: list[int] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)


def observe(path: Path, *, stays: bool) -> Observation:
    """Take the steps of the module on the log in a directory, which need not exist.  stays: deliver nothing."""
    seen = Observation()
    with ProblemCollector(seen.problems) as collector:
        collector.step = "before opening"
        if path.exists():
            seen.problems += _check(path, "before opening")
        collector.step = "opening"
        with Writer(path) as writer:
            writer.sync()
        seen.gone = _gone(path)
        _join(path)
        collector.step = "reading"
        with GroupControl(path, GROUP) as control:
            control.resume()
            control.retry_now()
            state = control.state()
            seen.in_log = _messages(path)
            dying = {item.sequence for item in state.items() if item.letter}
            outstanding = {item.sequence for item in state.items()} - dying
            seen.due = {
                message
                for sequence, message in seen.in_log.items()
                if sequence >= state.next or sequence in outstanding
            }
        seen.problems += _replay(path)
        if stays:
            seen.letters = all_letters(path)
            return seen
        collector.step = "delivering"
        delivered = _deliver(path)
        if sorted(delivered) != sorted(seen.due):
            seen.problems.append(f"{sorted(seen.due)} are due by the state, but {sorted(delivered)} were delivered")
        seen.letters = all_letters(path)
        collector.step = "going on"
        _go_on(path, seen)
        collector.step = "after use"
        seen.problems += _check(path, "after use") + _replay(path)
        if (letters := all_letters(path)) != seen.letters:
            seen.problems.append(f"the dead letters were {seen.letters}, and are {letters} after use")
    return seen


def _gone(path: Path) -> list[int]:
    """Return the sequences of messages that a group still needs, and that the log does not have any more."""
    first = binlog.stat(path).files[0].first_sequence or 0
    with suppress(NotFoundError), GroupControl(path, GROUP) as control:  # a process died while it was making the group
        state = control.state()
        needed = {*(item.sequence for item in state.items()), *range(state.next, first)}
        return sorted(sequence for sequence in needed if sequence < first)
    return []


def _join(path: Path) -> None:
    """Open the group, and let a member join."""
    with open_group(path) as group:
        item = group.get(0.0)
        if item is not None:
            item.back()


def _check(path: Path, when: str) -> list[str]:
    with suppress(NotFoundError):  # a process died while it was making the log
        return [f"check {when}: {problem}" for problem in binlog.check(path) if problem.rule != _POISON]
    return []


def _messages(path: Path) -> dict[int, Identity]:
    """Return the messages in the log, by sequence."""
    found = {}
    with Reader(path) as reader:
        while len(batch := reader.read_batch()):
            assert batch.first_sequence is not None
            for sequence, (_, data) in enumerate(batch.entries(), batch.first_sequence):
                found[sequence] = identity_of(bytes(Message.parse(data).body))
    return found


def all_letters(path: Path) -> list[Letter]:
    """Return the dead letters of the group, without those of messages that retention had removed."""
    letters = [each for each in read_dead_letters(path, GROUP) if each.origin is not None]
    return [Letter(identity_of(each.body), each.reason, each.deliveries) for each in letters]


def deliver_to(path: Path, found: set[Identity]) -> None:
    """Get and acknowledge everything, and add it to a set, message by message."""
    with open_group(path) as group:
        group.resume()
        for item in group.consume(0.0):
            with item:
                found.add(identity_of(item.data))


def _deliver(path: Path) -> list[Identity]:
    """Get and acknowledge everything: some items one by one, the others in a loop of another member."""
    found = []
    with open_group(path) as group:
        for _ in range(_BY_HAND):
            if (item := group.get(0.0)) is not None:
                found.append(identity_of(item.data))
                item.ack()
    with open_group(path) as group:
        for item in group.consume(0.0, prefetch=2):
            with item:
                found.append(identity_of(item.data))
    return found


def _go_on(path: Path, seen: Observation) -> None:
    with Writer(path) as writer:
        for message in _MINE:
            writer.append(record_of(message))
    found = _deliver(path)
    if sorted(found) != sorted(_MINE):
        seen.problems.append(f"{_MINE} were appended after all others were done, but {sorted(found)} were delivered")


def _replay(path: Path) -> list[str]:
    """Compare the state that a new member has with the state after all operations, from each file of the log on."""
    folder = os.path.join(path, "groups", GROUP)
    opened = StateReader.open(folder)
    opened.close()
    with LogDirectory(folder) as files:
        first = files.read_header(files.log_numbers()[0])
    if first.number != 1:
        return []
    state = GroupState(group_seed(first.uuid))
    with Reader(folder, Ref(1, first.first_offset)) as reader:
        for entry in reader:
            state.apply(entry.data)
    if state.pack() != opened.state.pack():
        return ["a new member has another state than all operations of the group give"]
    return []

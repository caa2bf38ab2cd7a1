"""docs/format.md suffices to read a group's log: a short script that uses nothing else counts as `stat` does."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

import pytest

from binlog import ConsumerGroup, Message, Producer, Retry, Writer, prune
from binlog.consumers import GroupControl, GroupStat, stat_group
from tests.support.checkout import ROOT

GROUP = "billing"

# Each entry has the size in its table; that of a checkpoint is the rest of the record.  Some have more after them: a
# text, or the facts about messages.
_SCRIPT = """
import json, struct, sys
SIZES = {1: 10, 2: 24, 3: 10, 5: 6, 6: 12, 7: 8, 8: 12, 9: 22, 10: 22, 11: 20, 12: 32, 13: 16, 16: 9, 17: 10**9, 19: 20}
MORE = {3: (">8xH", 1), 9: (">20xH", 1), 10: (">20xH", 1), 12: (">12xI16x", 24)}
found = {}
for path in sys.argv[1:]:
    file, at = open(path, "rb").read(), 256
    while at < int.from_bytes(file[8:16]):
        end, place = at + 4 + int.from_bytes(file[at : at + 4]), at + 4 + 32
        while place < end:
            kind, count = struct.unpack_from(">BxH", file, place)
            entries, place = found.setdefault(kind, []), place + 4
            for _ in range(count or kind == 17):
                entries.append(file[place : min(place + SIZES[kind], end)].hex())
                place += len(entries[-1]) // 2
                if kind in MORE:
                    place += MORE[kind][1] * struct.unpack(MORE[kind][0], bytes.fromhex(entries[-1]))[0]
        at = end
print(json.dumps(found))
"""
_COUNTERS_AT = 12 + 79  # in the entry of a checkpoint


class _History(NamedTuple):
    """A group that was deleted.  stat: just before that.  entries: of its log, by the kinds of their sections."""

    stat: GroupStat
    entries: dict[int, list[bytes]]


def _with_all_kinds(log: Path) -> None:
    """Make a group whose log has every kind of section but the last one."""
    with Writer(log) as writer:
        writer.append(b"0")
        writer.cutover()
    ConsumerGroup(log, GROUP, retry=Retry(first=3600)).close()
    prune(log, keep_bytes=0, ignore_groups=True)
    with Producer(log) as producer:
        producer.append_many([Message(body=b"%d" % number, key=b"k") for number in range(1, 9)])
    with ConsumerGroup(log, GROUP, lease=3600, skip_gone=True) as group, GroupControl(log, GROUP) as control:
        was_given_back = False
        for item in group.consume(timeout=0):
            if item.sequence == 1:
                item.nack(error="one")
            elif item.sequence == 2:
                item.reject("two, with a reason")
            elif item.sequence == 4 and not was_given_back:
                item.back()
                was_given_back = True
            elif item.sequence == 8:
                break
            else:
                item.extend(7200)
                item.ack()
        control.retry_now()
        control.pause()
        control.resume()
        control.set(outstanding_max=1000)
        control.reset(7, keep_outstanding=True)
        assert sorted(item.sequence for item in group.consume(timeout=0) if item.ack() is None) == [1, 7, 8]
    with ConsumerGroup(log, GROUP) as group, GroupControl(log, GROUP) as control:
        assert group.get(timeout=0) is None
        (seat,) = control.state().seats
        control.release(seat)
    with Writer(log / "groups" / GROUP) as operations:
        operations.cutover()
    with GroupControl(log, GROUP) as control:
        control.pause()  # the first operation in the second file, so a checkpoint follows


def _history(log: Path, copies: Path) -> _History:
    """Delete the group, and read its log with the script."""
    folder = log / "groups" / GROUP
    stat = stat_group(log, GROUP)
    opened = [open(path, "rb") for path in sorted(folder.glob("*.dat"))]  # noqa: SIM115 - closed below
    with GroupControl(log, GROUP) as control:
        control.delete()
    copies.mkdir()
    paths = []
    for number, file in enumerate(opened):
        paths.append(str(copies / str(number)))
        with file:
            Path(paths[-1]).write_bytes(file.read())
    done = subprocess.run([sys.executable, "-I", "-c", _SCRIPT, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout).items()
    return _History(stat, {int(kind): [bytes.fromhex(each) for each in entries] for kind, entries in found})


def _documented_kinds() -> set[int]:
    text = (ROOT / "docs" / "format.md").read_text()
    (table,) = re.findall(r"\| kind \| name \| entries \|\n\| --- .*\n((?:\|.*\n)+)", text)
    return {int(number) for row in table.splitlines() for number in re.findall(r"\d+", row.split("|")[1])}


@pytest.mark.slow
def test_a_script_of_a_few_lines_counts_as_stat_does(tmp_path: Path) -> None:
    _with_all_kinds(tmp_path / "log")
    stat, entries = _history(tmp_path / "log", tmp_path / "copies")
    assert set(entries) == _documented_kinds()
    counters = stat.counters
    assert (counters.done, counters.failed, counters.died, counters.dead, counters.gone) == (8, 2, 1, 1, 1)
    assert len(entries[6]) == counters.done + counters.dead
    assert len(entries[9]) + len(entries[10]) == counters.failed
    assert len(entries[5]) == counters.died
    assert sum(end - first for first, end in (struct.unpack(">QQ", each) for each in entries[13])) == counters.gone
    (checkpoint,) = entries[17]
    assert struct.unpack_from(">8Q", checkpoint, _COUNTERS_AT) == astuple(counters)
    next_sequence, known_end = struct.unpack_from(">QQ", checkpoint, 12 + 37)
    assert (next_sequence, known_end) == (stat.next, 9)
    settings: dict[int, int] = dict(struct.unpack(">HQ", each) for each in entries[1])
    assert (settings[1], settings[8]) == (0, stat.settings.outstanding_max)

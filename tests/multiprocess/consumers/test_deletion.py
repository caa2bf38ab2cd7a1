"""A group that is deleted and created again while workers use it: they get GoneError, and nothing else."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import ConsumerGroup, GoneError, Writer
from binlog.consumers import groups
from tests.support.checkout import ROOT

GROUP = "billing"
_SECONDS = 5

_WORKER = """
import os, random, sys
from binlog import ConsumerGroup, GoneError

log, name, end, seed = sys.argv[1:]
chance, left_open, gone_count = random.Random(seed), [], 0

def use(group):
    for item in group.consume(timeout=0.2, prefetch=chance.choice([0, 1, 5])):
        match chance.randrange(20):
            case 0 | 1 | 2:
                item.nack(delay=0)
            case 3:
                item.reject("no")
            case 4:
                return
            case _:
                item.ack()

while not os.path.exists(end):
    group = None
    try:
        group = ConsumerGroup(log, name, mode=chance.choice(["sync", "flush"]))
        use(group)
    except GoneError:
        gone_count += 1
    if group is not None:
        left_open.append(group)
    if len(left_open) > 5:
        left_open.pop(chance.randrange(5)).close()
print(gone_count)
"""


@pytest.mark.slow
def test_workers_of_a_group_that_is_deleted_again_and_again_learn_it_and_end_quietly(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    log, end, seed = tmp_path / "log", tmp_path / "end", random.SystemRandom().randrange(1 << 32)
    chance, deleted_count = random.Random(seed), 0
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(1000)])
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(log), GROUP, str(end), f"{seed}-{number}"],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    try:
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            with ConsumerGroup(log, GROUP) as group:
                for _ in range(chance.randrange(50)):
                    if (item := group.get(timeout=0.02)) is None:
                        break
                    item.ack()
                group.delete()
                deleted_count += 1
    finally:
        end.touch()
        said = [worker.communicate(timeout=60)[0] for worker in workers]
    assert all(each.strip().isdigit() for each in said), f"seed {seed}: {said}"
    assert [worker.returncode for worker in workers] == [0, 0, 0], f"seed {seed}"
    assert sum(map(int, said)) > 0
    groups(log)  # removes what deletions left
    assert set(os.listdir(log / "groups")) <= {".lock", GROUP}
    figure(f"a group deleted {deleted_count} times: workers learned it {sum(map(int, said))} times")


def test_closing_after_a_deletion_says_nothing_and_calls_say_that_the_group_is_gone(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append_many([b"1", b"2"])
    used = ConsumerGroup(tmp_path, GROUP, mode="flush")
    item = used.get(timeout=0)
    assert item is not None
    item.ack()  # not synced: closing would
    waiting = ConsumerGroup(tmp_path, GROUP)
    with ConsumerGroup(tmp_path, GROUP) as group:
        group.delete()
    with pytest.raises(GoneError, match="the group was deleted"):
        waiting.get(timeout=0)
    waiting.close()
    used.close()

"""The model of a disk whose syncs fail, against states worked out by hand."""

from __future__ import annotations

import random

import pytest

from stress.crash.disk_model.lossy_disk import LossyDisk
from stress.crash.preloaded.trace import Kind
from tests.support.recorded_run import ROOT, Run

A, B = b"a" * 1024, b"b" * 1024


def left(run: Run, seed: int = 0) -> dict[str, bytes]:
    disk = LossyDisk()
    disk.take(run.events)
    chance = random.Random(seed)
    return {name: disk.image(inode, chance) for name, inode in disk.names_in(ROOT).items()}


@pytest.mark.parametrize("seed", range(10))
def test_data_of_a_failed_sync_is_lost_unless_it_is_written_again(seed: int) -> None:
    run = Run()
    run.add(Kind.CREATE, name="file")
    run.add(Kind.WRITE, data=A + A)
    run.add(Kind.SYNC)
    run.add(Kind.WRITE, data=B + B)
    run.add(Kind.SYNC_FAILED)
    run.add(Kind.SYNC)
    assert left(run, seed) == {"file": A + A}
    run.add(Kind.WRITE, data=B)
    run.add(Kind.SYNC)
    assert left(run, seed) == {"file": B + A}


def test_unsynced_data_may_survive() -> None:
    run = Run()
    run.add(Kind.CREATE, name="file")
    run.add(Kind.WRITE, data=A)
    assert {left(run, seed)["file"] for seed in range(20)} == {A, bytes(1024)}


def test_a_file_that_has_the_number_of_a_removed_directory_is_a_file() -> None:
    run = Run()
    run.add(Kind.MAKE_DIRECTORY, name="folder")
    run.add(Kind.UNLINK, name="folder")
    run.add(Kind.CREATE, name="file")
    run.add(Kind.WRITE, data=A)
    run.add(Kind.SYNC)
    assert left(run) == {"file": A}


def test_a_file_that_has_the_number_of_a_removed_one_has_nothing_of_it() -> None:
    run = Run()
    run.add(Kind.CREATE, name="before")
    run.add(Kind.WRITE, data=A + A)
    run.add(Kind.SYNC)
    run.add(Kind.UNLINK, name="before")
    run.add(Kind.CREATE, name="file")
    run.add(Kind.WRITE, data=B)
    run.add(Kind.SYNC)
    assert left(run) == {"file": B}

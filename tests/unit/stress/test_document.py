"""The presentation of results, on a terminal and in docs/benchmarks.md.  The results are invented."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from stress.bench import figures, goals
from stress.bench.contestant import OURS, Contestant, Row, Unit
from stress.bench.document import RunInfo, document, shown
from stress.bench.machine import Disk, Machine, disk, machine
from stress.bench.rounds import Results
from stress.bench.rows import durable
from stress.bench.rows.every import all_rows, chosen
from stress.bench.sample import Sample, Waits

MACHINE = Machine(
    cpu="A CPU",
    cpu_count=2,
    memory_gib=24,
    kernel="Linux 6",
    disk=Disk(file_system="ext4", options="rw", device="does not rotate"),
    versions=("binlog 1",),
)
TAKEN = RunInfo(day="2026-01-02", rounds=2, seconds=2, load=(0.25, 1.5))


def nobody(directory: Path, seconds: float) -> Sample:
    raise AssertionError


@pytest.fixture
def results() -> Results:
    """Return one row: binlog, a peer twice as fast, one that is missing, and one that failed."""
    names = {OURS: None, durable.FLOOR: None, "Absent": "it is not installed", "Broken": None}
    contestants = tuple(
        Contestant(name=name, how=f"The way of {name}.", measure=nobody, missing=lambda missing=missing: missing)
        for name, missing in names.items()
    )
    row = Row(name="durable-1", title="Durable | appends", unit=Unit.RECORDS, contestants=contestants)
    results = Results([row])
    ours, floor, _, broken = results.all()
    ours.samples += [Sample(1000, Waits(1000, 2000, 3_000_000)), Sample(3000, Waits(1000, 2000, 5_000_000))]
    floor.samples += [Sample(2000, Waits(500, 700, 900)), Sample(6000, Waits(500, 700, 900))]
    broken.failure = "a disk fell down"
    broken.samples += [None, None]
    return results


def test_the_document(results: Results) -> None:
    text = re.sub(" +", " ", document(MACHINE, TAKEN, results))
    assert "There were 2 rounds" in text
    assert "| CPU | A CPU, 2 cores to run on |" in text
    assert "| load before and at the end | 0.25, 1.50 |" in text
    assert "| binlog | 2,000 | 1,000 to 3,000 | 1.00 | 2.00 | 4,000 | - |" in text
    assert f"| {durable.FLOOR} | 4,000 | 2,000 to 6,000 | 0.50 | 0.70 | 0.90 | 0.50 (0.50 to 0.50) |" in text
    assert "Absent: not measured, because it is not installed." in text
    assert "Broken: failed, because a disk fell down." in text
    assert "- **Broken**: The way of Broken." in text
    assert "| durable, 1 process, to the floor | at least 0.75 | 0.50 (0.50 to 0.50) | no |" in text
    assert "| binlog | 1,000; 3.00 | 3,000; 5.00 |" in text


def test_a_floor_that_differs_between_rounds_is_reported(results: Results) -> None:
    assert "Take the figures with care" in document(MACHINE, TAKEN, results)
    text = "in `durable-1`, the figures of `floor: write, sync` differed by a factor of 3.0 between rounds"
    assert text in str(results.unsteady)
    floor = results.find("durable-1", durable.FLOOR)
    assert floor is not None
    floor.samples[:] = [Sample(1000), Sample(1900)]
    assert results.unsteady is None
    assert "Take the figures with care" not in document(MACHINE, TAKEN, results)


def test_every_table_of_the_document_has_as_many_cells_in_each_line(results: Results) -> None:
    for block in re.findall(r"(?:^\|.*\|\n)+", document(MACHINE, TAKEN, results), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_a_terminal_shows_the_figures_in_columns(results: Results) -> None:
    text = shown(MACHINE, results)
    assert re.search(r"binlog +\| +2,000 \| +1,000 to 3,000 \| +1\.00 \| +2\.00 \| +4,000 \| +- \|", text)
    assert "Absent: not measured, because it is not installed" in text
    assert "Broken: failed, because a disk fell down" in text
    assert len({len(line) for line in text.partition("### durable-1")[2].splitlines() if line.startswith("|")}) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567.8, "1,234,568"), (99.96, "100.0"), (12.34, "12.3"), (1.234, "1.23"), (-250.4, "-250"), (0, "0.00")],
)
def test_numbers_have_three_digits_or_more(value: float, text: str) -> None:
    assert figures.number(value) == text


def test_a_goal_that_was_not_measured_is_left_out(results: Results) -> None:
    reached = [goal.what for goal in goals.goals() if goal.reached(results)]
    assert reached == ["durable, 1 process, to the floor"]


def test_every_goal_is_about_existing_contestants() -> None:
    results = Results(all_rows())
    for result in results.all():
        result.samples.append(Sample(10, Waits(1, 2, 3)))
    assert [goal.what for goal in goals.goals() if not goal.reached(results)] == []


def test_the_machine_is_described_without_paths_and_host(tmp_path: Path) -> None:
    text = "\n".join(value for _, value in machine(tmp_path).lines())
    assert not re.search(r"(^|[\s=,(])/", text)
    assert not re.search(rf"\b{re.escape(os.uname().nodename)}\b", text)


def test_a_file_system_is_named_by_its_mount() -> None:
    # Every machine has a visible mount of these two; in a chroot its disk has none, and /tmp may be in memory.
    assert disk(Path("/proc")).file_system == "proc"
    assert not disk(Path("/proc")).in_memory
    assert disk(Path("/dev/shm")).in_memory


def test_rows_are_chosen_by_name_and_by_family() -> None:
    assert [row.name for row in chosen(["durable-8", "flush"])] == ["durable-8", "flush"]
    assert [row.name for row in chosen(["durable"])] == [f"durable-{count}" for count in durable.PROCESSES]
    assert chosen([]) != []
    with pytest.raises(ValueError, match="there is no row nonsense"):
        chosen(["durable", "nonsense"])


def test_names_are_unique() -> None:
    rows = all_rows()
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert len({contestant.name for contestant in row.contestants}) == len(row.contestants)
        assert row.contestants[0].name.startswith(OURS)

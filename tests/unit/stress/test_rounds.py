"""Rounds, and the ratios and spreads computed from them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stress.bench.contestant import Contestant, Row, Unit
from stress.bench.rounds import Results, ratio, run_rounds
from stress.bench.sample import MeasureError, Sample, Spread, Waits


def row(*contestants: Contestant, name: str = "row") -> Row:
    return Row(name=name, title="A row", unit=Unit.RECORDS, contestants=contestants, seconds_factor=3)


def contestant(name: str, measure: Callable[[Path, float], Sample], missing: str | None = None) -> Contestant:
    return Contestant(name=name, how="somehow", measure=measure, missing=lambda: missing)


def giving(*values: float) -> Callable[[Path, float], Sample]:
    left: Iterator[float] = iter(values)
    return lambda directory, seconds: Sample(next(left))


def run(rows: list[Row], rounds: int, directory: Path) -> tuple[Results, list[str]]:
    told: list[str] = []
    results = run_rounds(
        rows,
        rounds=rounds,
        seconds=2,
        directory=directory,
        tell=lambda number, result: told.append(f"{number} {result.contestant.name}"),
    )
    return results, told


def test_each_contestant_is_measured_once_a_round_and_every_other_round_is_reversed(tmp_path: Path) -> None:
    rows = [row(contestant("a", giving(1, 2, 3)), contestant("b", giving(4, 5, 6)))]
    results, told = run(rows, 3, tmp_path)
    assert told == ["0 a", "0 b", "1 b", "1 a", "2 a", "2 b"]
    assert [result.values for result in results.all()] == [[1, 2, 3], [4, 5, 6]]


def test_each_measurement_has_an_empty_directory_and_leaves_none(tmp_path: Path) -> None:
    def measure(directory: Path, seconds: float) -> Sample:
        assert list(directory.iterdir()) == []
        assert directory.parent == tmp_path
        (directory / "big").touch()
        return Sample(seconds)

    results, _ = run([row(contestant("a", measure))], 2, tmp_path)
    assert results.all()[0].values == [6, 6]
    assert list(tmp_path.iterdir()) == []


def test_unwritten_data_is_synced_before_the_next_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []
    sync = os.sync

    def syncing() -> None:
        happened.append("sync")
        sync()

    def measure(directory: Path, seconds: float) -> Sample:
        happened.append("measure")
        (directory / "big").write_bytes(bytes(1 << 20))
        return Sample(seconds)

    monkeypatch.setattr(os, "sync", syncing)
    run([row(contestant("a", measure), contestant("b", measure))], 2, tmp_path)
    assert happened == ["sync", "measure"] * 4


def test_a_missing_contestant_is_not_measured(tmp_path: Path) -> None:
    results, told = run([row(contestant("a", giving(), "there is none"), contestant("b", giving(1)))], 1, tmp_path)
    assert told == ["0 b"]
    assert results.all()[0].spread is None
    assert results.failures == []


def test_a_row_without_enough_disk_space_is_not_measured(tmp_path: Path) -> None:
    large = dataclasses.replace(row(contestant("a", giving())), disk_bytes=1 << 60)
    small = dataclasses.replace(row(contestant("a", giving(1)), name="small"), disk_bytes=1)
    results, told = run([large, small], 1, tmp_path)
    assert told == ["0 a"]
    refused, measured = results.all()
    assert "it may put 6,442,450,944 GiB on the disk" in str(refused.missing)
    assert measured.values == [1]


def test_a_failed_contestant_is_reported_and_not_measured_again(tmp_path: Path) -> None:
    calls = []

    def measure(directory: Path, seconds: float) -> Sample:
        calls.append(seconds)
        if len(calls) == 2:
            raise MeasureError("on purpose")
        return Sample(7)

    results, _ = run([row(contestant("a", measure))], 4, tmp_path)
    (result,) = results.failures
    assert result.failure == "on purpose"
    assert result.values == [7]
    assert len(calls) == 2


def test_a_ratio_is_the_median_of_the_rounds_own(tmp_path: Path) -> None:
    rows = [row(contestant("a", giving(2, 30, 4)), contestant("b", giving(1, 10, 8)))]
    results, _ = run(rows, 3, tmp_path)
    assert ratio(results.find("row", "a"), results.find("row", "b")) == Spread(2, 0.5, 3)
    assert ratio(results.find("row", "a"), results.find("row", "nobody")) is None


def test_rounds_with_a_failure_have_no_ratio(tmp_path: Path) -> None:
    def fail(directory: Path, seconds: float) -> Sample:
        raise MeasureError("on purpose")

    results, _ = run([row(contestant("a", giving(1, 2)), contestant("b", fail))], 2, tmp_path)
    assert ratio(results.find("row", "a"), results.find("row", "b")) is None


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ([5], (5, 5, 5)),
        ([3, 1, 2], (2, 2, 3)),
        (list(range(1000, -1, -1)), (500, 990, 1000)),
    ],
)
def test_percentiles(waits: list[int], expected: tuple[int, int, int]) -> None:
    assert Waits.of(waits) == Waits(*expected)


def test_waits_are_summed_up_over_the_rounds(tmp_path: Path) -> None:
    samples = iter([Sample(1, Waits(1, 5, 100)), Sample(1, Waits(2, 6, 50)), Sample(1, Waits(3, 7, 900))])
    results, _ = run([row(contestant("a", lambda directory, seconds: next(samples)))], 3, tmp_path)
    assert results.all()[0].wait_ns("longest_ns") == Spread(100, 50, 900)
    assert results.all()[0].wait_ns("p50_ns") == Spread(2, 1, 3)


def test_a_round_with_a_zero_has_no_ratio(tmp_path: Path) -> None:
    rows = [row(contestant("a", giving(2, 30)), contestant("b", giving(0, 10)), contestant("c", giving(0, 0)))]
    results, _ = run(rows, 2, tmp_path)
    assert ratio(results.find("row", "a"), results.find("row", "b")) == Spread(3, 3, 3)
    assert ratio(results.find("row", "a"), results.find("row", "c")) is None

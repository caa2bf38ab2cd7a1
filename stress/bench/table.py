"""The results on a terminal: the machine, a table for each kind of row, and what was aimed at."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from stress.bench import figures
from stress.bench.contestant import Row
from stress.bench.goals import goals
from stress.bench.machine import Machine
from stress.bench.rounds import Result, Results, ratio


def show(console: Console, machine: Machine, results: Results) -> None:
    """Print everything."""
    console.print(_machine(machine))
    for row in results.rows:
        console.print(_row(row, results.of(row)))
    aims = _goals(results)
    if aims.row_count:
        console.print(aims)
    if results.unsteady:
        console.print(f"Take the figures with care: {results.unsteady}.", soft_wrap=True)


def _machine(machine: Machine) -> Table:
    table = Table("", "", title="The machine", title_justify="left", show_header=False, box=box.SIMPLE)
    for name, value in machine.lines():
        table.add_row(name, value)
    return table


def _row(row: Row, results: list[Result]) -> Table:
    waits = any(result.wait_ns("longest_ns") for result in results)
    table = Table(title=f"{row.name}: {row.title}", title_justify="left", caption_justify="left", box=box.SIMPLE)
    table.add_column("", no_wrap=True)
    for heading in headings(row, waits):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(result.contestant.name, *cells(result, results[0], waits))
    table.caption = "\n".join(f"{result.contestant.name}: {why(result)}" for result in results if why(result))
    return table


def headings(row: Row, waits: bool) -> list[str]:
    """What stands above the cells."""
    more = ["p50 µs", "p99 µs", "longest µs"] if waits else []
    return [row.unit.value, "range", *more, "binlog to it"]


def cells(result: Result, first: Result, waits: bool) -> list[str]:
    """The figures of one contestant, beside those of the first."""
    shown = [figures.median(result.spread), figures.span(result.spread)]
    if waits:
        shown += [
            figures.median(result.wait_ns(name), figures.microseconds) for name in ("p50_ns", "p99_ns", "longest_ns")
        ]
    return [*shown, figures.NONE if result is first else figures.times(ratio(first, result))]


def why(result: Result) -> str:
    """Why there are no figures, or not of every round; empty where there are."""
    if result.missing:
        return f"not measured, because {result.missing}"
    return f"failed, because {result.failure}" if result.failure else ""


def goal_cells(results: Results) -> list[tuple[str, str, str, str]]:
    """What was aimed at, the bound, what was reached and whether that keeps to it; those that were not measured not."""
    found = [(goal, goal.reached(results)) for goal in goals()]
    return [
        (goal.what, goal.aim, figures.both(spread), "yes" if goal.met(spread) else "no")
        for goal, spread in found
        if spread
    ]


def _goals(results: Results) -> Table:
    table = Table("", "aim", "reached", "met", title="What was aimed at", title_justify="left", box=box.SIMPLE)
    for cells_ in goal_cells(results):
        table.add_row(*cells_)
    return table

"""The results as Markdown: on a terminal, and in docs/benchmarks.md with each round and how they were measured.

`pictures` adds a section to the document, before its first one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stress.bench import figures
from stress.bench.contestant import BODY_BYTES, RECORD_BYTES, Row
from stress.bench.goals import goals
from stress.bench.machine import Machine
from stress.bench.peers.our_queue import many_count
from stress.bench.peers.spark_process import MEGABYTES_A_SECOND as SPARK_MEGABYTES
from stress.bench.rounds import Result, Results, ratio

_GOALS = (
    "A goal with a unit is about binlog's own figure. A goal with `to` is about a ratio: binlog's figure divided",
    "by that of the floor, of the other program, or of binlog in another row.",
)


@dataclass(frozen=True)
class RunInfo:
    """When and how the figures were taken.  load: runnable processes in the minute before, and in the last one."""

    day: str
    rounds: int
    seconds: float
    load: tuple[float, float]


def document(machine: Machine, run: RunInfo, results: Results) -> str:
    """Return the whole document."""
    lines = [
        *_opening(run),
        *_machine(machine, run, results),
        *_goals(results),
        "## Figures",
        "",
        *_figures(results),
        *_how(results),
        *_raw(results),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def shown(machine: Machine, results: Results) -> str:
    """Return the part that a terminal shows."""
    lines = [*(f"{name}: {value}" for name, value in machine.lines()), "", *_figures(results), *_goals(results)]
    return "\n".join([*lines, f"Take the figures with care: {results.unsteady}."] if results.unsteady else lines)


def _opening(run: RunInfo) -> list[str]:
    return [
        "# Benchmarks",
        "",
        "`make bench ARGS=--write` writes this page; do not edit it by hand. Compare figures only within one run,",
        "because another disk, kernel or machine gives other figures.",
        "",
        "## Method",
        "",
        f"A record has {RECORD_BYTES} bytes, and a message {BODY_BYTES}, unless the row gives another size. A row,",
        "such as `durable-8`, is one kind of work. A contestant is one way to do it: binlog, another program, or a",
        "floor, which is a loop in C that does only the necessary minimum.",
        f"There were {run.rounds} rounds. In each round, every contestant was measured once for {run.seconds:g} s (in",
        "`stage`, `group-killed`, `group-idle`, `seal-8` and `seal-latency` five times as long, in `bulk` two and a",
        "half times as long). The measurements ran one after another, each in an empty directory and after a sync of",
        "all unwritten data. Every second round ran in reverse order.",
        "",
        "A figure is the median of the rounds, followed by their range. The first line of a table is always binlog's.",
        'In each other line, the column "binlog to it" has the first figure divided by the figure of that line. A',
        "ratio is computed for each round; the table has the median of these ratios, and their range. The processes",
        "are forked and prepared first. Then they start together, and stop when a flag in shared memory is set. The",
        "measured time is from the start of the first process to the end of the last one. A wait is the duration of",
        "one call, in any process. Each round has a median wait (p50), a 99th percentile (p99) and a longest wait; the",
        "table has the median of the rounds for each of these. After a measurement the records in the log are counted;",
        "if their number is not the number that was written, the contestant fails.",
        "",
        f"In the rows of Spark, each job is measured once a round, with {SPARK_MEGABYTES * run.seconds:,.0f} MB of",
        "records, in one warm session on two cores. Each job runs directly after another run of the same job, because",
        "a different job would leave Java's heap and the caches in a state that slows it down. Before each run, the",
        "benchmark touches the memory that the job will need, because the kernel of a virtual machine may first have",
        "to get that memory from the host. The queue in `paging-many` had",
        f"{many_count(run.seconds):,} messages, and was measured until all of them were acknowledged.",
        "",
    ]


def _machine(machine: Machine, run: RunInfo, results: Results) -> list[str]:
    rows = [*machine.lines(), ("day", run.day), ("load before and at the end", "{:.2f}, {:.2f}".format(*run.load))]
    lines = ["## Machine", "", *_table(("", ""), rows)]
    return [*lines, f"Take the figures with care: {results.unsteady}.", ""] if results.unsteady else lines


def _goals(results: Results) -> list[str]:
    """Return the goals with their bounds, and whether they were met; goals that were not measured are left out."""
    found = [(goal, goal.reached(results)) for goal in goals()]
    rows = [
        (goal.what, goal.aim, figures.both(spread), "yes" if goal.met(spread) else "no")
        for goal, spread in found
        if spread
    ]
    return ["## Goals", "", *_GOALS, "", *_table(("", "aim", "reached", "met"), rows)] if rows else []


def _figures(results: Results) -> Iterator[str]:
    for row in results.rows:
        yield from (f"### {row.name}", "", f"{row.title}.", "")
        found = results.of(row)
        waits = _has_waits(found)
        more = ["p50 µs", "p99 µs", "longest µs"] if waits else []
        heading = ["", row.unit.value, "range", *more, "binlog to it"]
        yield from _table(heading, [_cells(result, found[0], waits) for result in found])
        for result in found:
            if result.missing:
                yield from (f"{result.contestant.name}: not measured, because {result.missing}.", "")
            elif result.failure:
                yield from (f"{result.contestant.name}: failed, because {result.failure}.", "")


def _cells(result: Result, first: Result, waits: bool) -> list[str]:
    """Return the figures of one contestant, with its ratio to the first one."""
    cells = [result.contestant.name, figures.median(result.spread), figures.span(result.spread)]
    if waits:
        cells += [
            figures.median(result.wait_ns(name), figures.microseconds) for name in ("p50_ns", "p99_ns", "longest_ns")
        ]
    return [*cells, figures.NONE if result is first else figures.times(ratio(first, result))]


def _how(results: Results) -> Iterator[str]:
    yield from ("## How", "")
    for title, rows in _families(results):
        yield from (f"### {title}", "")
        hows: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            for contestant in row.contestants:
                hows.setdefault((contestant.name, contestant.how), []).append(f"`{row.name}`")
        counts = Counter(name for name, _ in hows)
        for (name, how), names in hows.items():
            where = f" ({', '.join(names)})" if counts[name] > 1 else ""
            yield f"- **{name}**{where}: {how}"
        yield ""


def _families(results: Results) -> list[tuple[str, list[Row]]]:
    """Group the rows of one family, which are measured in the same way: `durable-1`, `durable-2`."""
    families: dict[str, list[Row]] = {}
    for row in results.rows:
        families.setdefault(row.name.split("-")[0], []).append(row)
    return list(families.items())


def _raw(results: Results) -> Iterator[str]:
    yield from ("## Each round", "")
    for row in results.rows:
        measured = [result for result in results.of(row) if result.values]
        if measured:
            more = "; longest wait, ms" if _has_waits(measured) else ""
            yield from (f"### {row.name}, round by round ({row.unit.value}{more})", "")
            yield from _table(
                ["", *(str(number + 1) for number in range(max(len(result.samples) for result in measured)))],
                [[result.contestant.name, *_rounds(result)] for result in measured],
            )


def _has_waits(results: list[Result]) -> bool:
    return any(result.wait_ns("longest_ns") for result in results)


def _rounds(result: Result) -> Iterator[str]:
    for sample in result.samples:
        if sample is None:
            yield figures.NONE
        elif sample.waits:
            yield f"{figures.number(sample.value)}; {figures.number(sample.waits.longest_ns / 1e6)}"
        else:
            yield figures.number(sample.value)


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (heading, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        for row in cells
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return ["| " + " | ".join(row) + " |" for row in (lines[0], rule, *lines[1:])] + [""]

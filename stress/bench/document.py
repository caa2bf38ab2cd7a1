"""The results as Markdown: on a terminal, and in docs/benchmarks.md with each round and how they were measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stress.bench import figures
from stress.bench.contestant import BODY_BYTES, RECORD_BYTES, Row
from stress.bench.goals import goals
from stress.bench.machine import Machine
from stress.bench.peers.our_queue import many_count
from stress.bench.peers.spark_process import MEGABYTES_A_SECOND as SPARK_MEGABYTES
from stress.bench.rounds import Result, Results, ratio


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
        "Written by `make bench ARGS=--write`; do not edit it by hand. Compare figures only with those of the same",
        "run: another disk, kernel or machine gives others.",
        "",
        f"Records have {RECORD_BYTES} bytes, messages {BODY_BYTES}. There were {run.rounds} rounds. In each round",
        f"every contestant was measured once for {run.seconds:g} s (five times that in `stage`, two and a half times",
        "in `bulk`), one after another, each in an empty directory and after all unwritten data was synced; every",
        "other round went through the list backwards.",
        "A figure is the median of the rounds, followed by their range. A ratio is the median of the rounds' own",
        "ratios: more than 1 means that binlog's figure is the larger one. Processes are forked and prepared first,",
        "released at once, and stopped through a flag in shared memory; the time is from the first one's beginning to",
        "the last one's end. Waits are those of single calls, of all processes: the median of the rounds' medians",
        "(p50), of their 99th percentiles (p99) and of the longest one of each round. The records in each log are",
        "counted afterwards, and a peer with another number than it was given fails. In the rows of Spark everything",
        f"is done once a round, with {SPARK_MEGABYTES * run.seconds:,.0f} MB of records, in one warm session of two",
        "cores, each job right after itself, because after another one it would pay for the state of Java's heap and",
        "the caches; and with free memory at hand, which a virtual machine may have to ask its host for again.",
        f"The queue of many had {many_count(run.seconds):,} messages, and took as long as it needed.",
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
    return ["## Goals", "", *_table(("", "aim", "reached", "met"), rows)] if rows else []


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
        hows = dict.fromkeys((contestant.name, contestant.how) for row in rows for contestant in row.contestants)
        yield from (f"- **{name}**: {how}" for name, how in hows)
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

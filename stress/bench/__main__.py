"""Measure binlog and its peers side by side: python -m stress.bench [--only ROW]... [--quick] [--write].

Exit codes: 0 measured, 1 something failed, 2 wrong usage, 130 Ctrl-C.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
from pathlib import Path

import click

from stress.bench import pictures
from stress.bench.contestant import Row
from stress.bench.document import RunInfo, document, shown
from stress.bench.machine import disk, load, machine
from stress.bench.progress import Progress
from stress.bench.rounds import Results, run_rounds
from stress.bench.rows.every import chosen

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"

_SECONDS, _ROUNDS = 2.0, 5
_QUICK_SECONDS, _QUICK_ROUNDS = 0.1, 2


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Measure binlog and the alternatives to it, in turn, on the same work and disk, and print a table.",
)
@click.option("--seconds", type=click.FloatRange(min=0.01), help=f"Duration of one measurement; default {_SECONDS:g}.")
@click.option("--rounds", type=click.IntRange(min=1), help=f"Measurements of each contestant; default {_ROUNDS}.")
@click.option("--quick", is_flag=True, help=f"{_QUICK_ROUNDS} rounds of {_QUICK_SECONDS:g} s: for a first impression.")
@click.option("--only", multiple=True, metavar="ROW", help="durable-8, or durable for all of these; may be repeated.")
@click.option(
    "--directory",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="A directory on the disk to measure; default /var/tmp.",
)
@click.option(
    "--write",
    is_flag=False,
    flag_value=DOCUMENT,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="[FILE]",
    help="Write the document and its pictures too; default docs/benchmarks.md.",
)
def bench(
    seconds: float | None,
    rounds: int | None,
    quick: bool,
    only: tuple[str, ...],
    directory: Path | None,
    write: Path | None,
) -> None:
    """See the module."""
    # Other signals take the same path: processes ended, directories removed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    seconds = seconds or (_QUICK_SECONDS if quick else _SECONDS)
    rounds = rounds or (_QUICK_ROUNDS if quick else _ROUNDS)
    directory = directory or _usual_directory()
    rows = _rows(only)
    _refuse_memory(directory)
    here, load_before = machine(directory), load()
    try:
        with Progress(rounds) as progress:
            results = run_rounds(rows, rounds=rounds, seconds=seconds, directory=directory, tell=progress.show)
    except KeyboardInterrupt:
        click.echo("bench: interrupted; all of its processes have ended", err=True)
        sys.exit(130)
    run = RunInfo(dt.datetime.now(dt.UTC).date().isoformat(), rounds, seconds, (load_before, load()))
    click.echo(shown(here, results))
    if write:
        pictures.write(write, document(here, run, results))
    _print_failures(results)


def _rows(only: tuple[str, ...]) -> list[Row]:
    try:
        return chosen(only)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--only") from None


def _usual_directory() -> Path:
    # Not /tmp, which may be in memory.
    return Path("/var/tmp") if os.access("/var/tmp", os.W_OK) else Path.cwd()


def _refuse_memory(directory: Path) -> None:
    kind = disk(directory)
    if kind.in_memory:
        raise click.BadParameter(
            f"the directory is on {kind.file_system}, which never syncs anything; choose one on a disk",
            param_hint="--directory",
        )


def _print_failures(results: Results) -> None:
    for result in results.failures:
        click.echo(f"bench: {result.row.name}: {result.contestant.name} failed: {result.failure}", err=True)
    if results.failures:
        sys.exit(1)


if __name__ == "__main__":
    bench(prog_name="python -m stress.bench")

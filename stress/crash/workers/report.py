"""The report that the command prints."""

from __future__ import annotations

from stress.crash.workers.tally import Counts, Tally

_COLUMNS = "{:<28}{:>8}{:>12}{:>12}{:>8}{:>12}{:>12}"


def progress(seconds: float, tally: Tally) -> str:
    """Return one line of progress."""
    states = sum(counts.states for counts in tally.rows.values())
    violations = sum(counts.violations for counts in tally.rows.values())
    return f"crash: {seconds:.0f} s, {states:,} distinct states, {violations:,} violations"


def table(seconds: float, cpu_seconds: float, tally: Tally) -> str:
    """Return the table at the end.

    cpu_seconds: used by all processes, a better measure than the clock if the machine is busy.

    Rates are per second of the whole run for totals, and per second of the worker's time for a row.
    """
    lines = [_COLUMNS.format("", "runs", "states", "repeated", "share", "a second", "violations")]
    for part in sorted({name.partition("/")[0] for name in tally.rows}):
        rows = {name: counts for name, counts in sorted(tally.rows.items()) if name.startswith(part + "/")}
        whole = sum(counts.states for counts in rows.values())
        for name, counts in rows.items():
            lines.append(_line(name, counts, whole, counts.seconds))
        if len(rows) > 1:
            together = Counts(
                sum(counts.runs for counts in rows.values()), whole,
                sum(counts.repeated for counts in rows.values()), sum(counts.violations for counts in rows.values()),
            )  # fmt: skip
            lines.append(_line(part, together, whole, seconds))
    states = sum(counts.states for counts in tally.rows.values())
    lines.append(
        f"{states:,} distinct states, {states / seconds:,.0f} a second, {states / cpu_seconds:,.0f} a CPU second"
    )
    return "\n".join([*lines[:-1], *_deaths(tally), lines[-1]])


def _deaths(tally: Tally) -> list[str]:
    """Return a line for each row in which processes are killed."""
    return [
        f"{name}: {row.kills:,} kills, {row.kills / row.seconds:,.1f} a second of its own, "
        f"{100 * row.inside / row.kills:.0f} % between lock and unlock, {row.acknowledged:,} records acknowledged, "
        f"{row.acknowledged / row.kills:,.0f} between kills"
        for name, row in sorted(tally.rows.items())
        if row.kills and row.seconds
    ]


def _line(name: str, counts: Counts, whole: int, seconds: float) -> str:
    share = f"{100 * counts.states / whole:.0f} %" if whole else ""
    rate = f"{counts.states / seconds:,.0f}" if seconds else ""
    return _COLUMNS.format(
        name, f"{counts.runs:,}", f"{counts.states:,}", f"{counts.repeated:,}", share, rate, f"{counts.violations:,}"
    )

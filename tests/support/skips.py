"""A pytest plugin: fails a test that skips for an unlisted reason, and prints all skips and their reasons at the end.

The failure is raised in the test itself, so it is the same with and without xdist, and names the test.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tomllib
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

ALLOWED = Path(__file__).resolve().parent.parent / "allowed_skips.toml"


@dataclass(frozen=True)
class AllowedSkip:
    """One entry of the list; `test` and `reason` are patterns."""

    test: str
    reason: str
    why: str

    def covers(self, test: str, reason: str) -> bool:
        """Return whether a test may be skipped for a reason."""
        return fnmatch.fnmatchcase(test, self.test) and fnmatch.fnmatchcase(reason, self.reason)


def load_allowed(path: Path) -> list[AllowedSkip]:
    """Read the list; an entry with a missing or unknown field is a TypeError."""
    return [AllowedSkip(**entry) for entry in tomllib.loads(path.read_text())["skip"]]


_LIST: pytest.StashKey[list[AllowedSkip]] = pytest.StashKey()

# xdist appends a test's group to its id, after the brackets of its parameters.
_XDIST_GROUP = re.compile(r"@[^]]*$")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("allowed_skips", "the list of skips that may happen", default=str(ALLOWED))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LIST] = load_allowed(config.rootpath / config.getini("allowed_skips"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail_unlisted(report, item.config)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail_unlisted(report, collector.config)
    return report


def _fail_unlisted(report: pytest.TestReport | pytest.CollectReport, config: pytest.Config) -> None:
    # An expected failure counts as skipped too.
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = _reason(report)
    test = _XDIST_GROUP.sub("", report.nodeid)
    if not any(allowed.covers(test, reason) for allowed in config.stash[_LIST]):
        report.outcome = "failed"
        report.longrepr = f"skipped ({reason}), and tests/{ALLOWED.name} does not list that"


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason that the skip gave."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    run = sum(len(terminalreporter.getreports(outcome)) for outcome in ("passed", "failed", "xfailed", "xpassed"))
    skipped = terminalreporter.getreports("skipped")
    terminalreporter.write_line(
        f"tests run: {run}, skipped: {len(skipped)} (tests/{ALLOWED.name} lists each that may be)"
    )
    for reason, count in Counter(map(_reason, skipped)).most_common():
        terminalreporter.write_line(f"not run on this machine: {count}, because: {reason}")

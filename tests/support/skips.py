"""A pytest plugin: a skip that tests/allowed_skips.toml does not list is a failure; the counts stand at the end.

The failure is made where the test runs, so it is the same with and without xdist, and names the test.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

ALLOWED = Path(__file__).resolve().parent.parent / "allowed_skips.toml"


@dataclass(frozen=True)
class AllowedSkip:
    """One line of the list; `test` and `reason` are patterns."""

    test: str
    reason: str
    why: str

    def covers(self, test: str, reason: str) -> bool:
        """Tell whether a test may be skipped for a reason."""
        return fnmatch.fnmatchcase(test, self.test) and fnmatch.fnmatchcase(reason, self.reason)


def load_allowed(path: Path) -> list[AllowedSkip]:
    """Read the list; an entry with a field missing or unknown is a TypeError."""
    return [AllowedSkip(**entry) for entry in tomllib.loads(path.read_text())["skip"]]


_LIST: pytest.StashKey[list[AllowedSkip]] = pytest.StashKey()

# xdist writes a test's group behind its id, and behind the brackets of its parameters.
_XDIST_GROUP = re.compile(r"@[^]]*$")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("allowed_skips", "the list of skips that may happen", default=str(ALLOWED))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LIST] = load_allowed(config.rootpath / config.getini("allowed_skips"))


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
    # An expected failure calls itself skipped too.
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    reason = reason.removeprefix("Skipped: ")
    test = _XDIST_GROUP.sub("", report.nodeid)
    if not any(allowed.covers(test, reason) for allowed in config.stash[_LIST]):
        report.outcome = "failed"
        report.longrepr = f"skipped ({reason}), and tests/{ALLOWED.name} does not list that"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    count = {outcome: len(terminalreporter.getreports(outcome)) for outcome in _RUN | _SKIPPED}
    run, skipped = sum(count[name] for name in _RUN), sum(count[name] for name in _SKIPPED)
    terminalreporter.write_line(f"tests run: {run}, skipped: {skipped} (tests/{ALLOWED.name} lists each that may be)")


_RUN = {"passed", "failed", "xfailed", "xpassed"}
_SKIPPED = {"skipped"}

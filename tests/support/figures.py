"""A pytest plugin: prints figures that tests measured at the end of the run, and never asserts them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_NAME = "figure"


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Return a function that takes a line to print at the end of the run."""
    return lambda text: record_property(_NAME, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of all workers."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.getreports(name)]
    lines = [text for report in reports for name, text in report.user_properties if name == _NAME]
    if lines:
        terminalreporter.section("measured")
        for line in lines:
            terminalreporter.write_line(str(line))

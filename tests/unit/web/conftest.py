"""A page of a log with events and a group, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.web_pages import SECRET, Page, fill_log, running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A running server."""
    log = tmp_path_factory.mktemp("web") / f"log-{SECRET}"
    fill_log(log)
    with running(log) as found:
        yield found

"""docs/add-an-engine.md lists every place that names the engines."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

import pytest

from tests.support.checkout import ROOT

# Some modules and tests write a name in two words.
_ENGINES = ("commit_?log", "journal", "paging", "page_?store")
_PAGE = (ROOT / "docs" / "add-an-engine.md").read_text()


def _missing(page: str, sources: Mapping[str, str]) -> list[str]:
    """The files that name three engines or more, and that the page does not list."""
    engines = [re.compile(engine, re.IGNORECASE) for engine in _ENGINES]
    naming = [name for name, text in sources.items() if sum(bool(each.search(text)) for each in engines) >= 3]
    return [name for name in naming if f"`{name}`" not in page]


def _sources() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "Makefile", "pyproject.toml", "mkdocs.yml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in listed.stdout.split() if not name.endswith("test_add_an_engine.py")]
    return {name: (ROOT / name).read_text() for name in names}


@pytest.mark.slow
def test_every_place_that_names_the_engines_is_listed() -> None:
    assert _missing(_PAGE, _sources()) == []


def test_a_place_that_is_not_listed_is_found() -> None:
    table = 'ENGINES = ("commitlog", "journal", "paging")'
    assert _missing(_PAGE, {"binlog/new_table.py": table}) == ["binlog/new_table.py"]
    assert _missing(_PAGE + " `binlog/new_table.py`", {"binlog/new_table.py": table}) == []
    assert _missing(_PAGE, {"binlog/other.py": "import binlog.journal"}) == []


def test_every_place_of_the_page_exists() -> None:
    rows = re.findall(r"^\| `([\w/.]+)` \|", _PAGE, re.MULTILINE)
    assert len(rows) > 10
    assert [row for row in rows if not (ROOT / row).exists()] == []

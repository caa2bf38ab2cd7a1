"""Files and folders have sizes that a reader can take in, and each folder has a paragraph of text."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from pathlib import Path

from tests.support.checkout import ROOT

_LINES_MEDIAN_MIN = 130
_LINES_MAX = 500
_MODULES_MAX = 16


def _files() -> list[Path]:
    files = sorted((ROOT / "binlog").rglob("*.py"))
    assert files
    return files


def _line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_half_of_the_files_have_at_least_130_lines_and_none_has_more_than_500() -> None:
    counts = {str(path.relative_to(ROOT)): _line_count(path) for path in _files()}
    assert statistics.median(counts.values()) >= _LINES_MEDIAN_MIN
    assert {name: count for name, count in counts.items() if count > _LINES_MAX} == {}


def test_no_folder_has_more_than_16_modules() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in _files())
    assert {name: count for name, count in counts.items() if count > _MODULES_MAX} == {}


def test_each_folder_says_in_a_paragraph_how_its_modules_work_together() -> None:
    """A first line alone is not enough."""
    texts = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in _files() if path.stem == "__init__"}
    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if len(text.split("\n\n")) < 2] == []

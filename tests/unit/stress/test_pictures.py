"""The pictures of docs/benchmarks.md have the figures of its tables."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from stress.bench.pictures import PICTURES, illustrated, write
from stress.bench.rows.every import all_rows
from stress.bench.sample import Spread
from stress.bench.svg import Bar, Group, bar_chart
from tests.support.checkout import ROOT

PAGE = """# Benchmarks

Text.

## Method

Text.

## Figures

### durable-1

Durable appends.

|             | records/s |          range | binlog to it |
| ----------- | --------: | -------------: | -----------: |
| binlog      |     2,000 | 1,000 to 3,000 |            - |
| SQLite FULL |       500 |     400 to 600 |         4.00 |
| LMDB        |         - |              - |            - |

## How

### durable

- **binlog**: the way.
"""


def _texts(svg: str) -> list[str | None]:
    return [each.text for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_pictures_of_the_page_are_those_of_its_tables() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    page, drawn = illustrated(text)
    assert page == text
    assert len(drawn) >= 3
    assert {path.name: path.read_text() for path in (ROOT / "docs" / "benchmarks").iterdir()} == drawn


def test_a_picture_shows_the_contestants_that_were_measured() -> None:
    page, drawn = illustrated(PAGE)
    assert list(drawn) == ["durable.svg"]
    assert page.count("](benchmarks/durable.svg)") == 1
    assert page.index("## In pictures") < page.index("## Method")
    assert _texts(drawn["durable.svg"])[2:] == ["1 process", "binlog", "2,000", "SQLite FULL", "500"]


def test_a_new_page_replaces_the_pictures(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write(page, PAGE)
    write(page, page.read_text().replace("2,000", "2,500"))
    assert page.read_text().count("## In pictures") == 1
    assert "2,500" in _texts((tmp_path / "benchmarks" / "durable.svg").read_text())
    write(page, page.read_text().replace("### durable-1", "### other"))
    assert "## In pictures" not in page.read_text()
    assert list((tmp_path / "benchmarks").iterdir()) == []


def test_bars_have_the_lengths_of_their_figures() -> None:
    bars = [Bar("a & b", Spread(10, 5, 40), "ours"), Bar("c", Spread(20, 20, 20), "other")]
    root = ET.fromstring(bar_chart("A title", "s", [Group("", bars)]))
    _, one, other = root.iter("{http://www.w3.org/2000/svg}rect")
    assert float(other.attrib["width"]) == 2 * float(one.attrib["width"])


def test_the_rows_and_contestants_of_the_pictures_exist() -> None:
    rows = {row.name: {contestant.name for contestant in row.contestants} for row in all_rows()}
    for picture in PICTURES:
        assert set(picture.rows.values()) <= set(rows)
        for name in picture.rows.values():
            assert set(picture.contestants) <= rows[name]

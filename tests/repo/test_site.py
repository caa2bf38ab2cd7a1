"""`make docs`: the site builds without a warning, has every public name, and loads nothing from other hosts."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import binlog
from tests.support.checkout import ROOT

# One build for all, some ten seconds of processor time; with the extra `docs`, which `make test` does not install.
pytestmark = [pytest.mark.install, pytest.mark.xdist_group("site")]

# Packages without public names: the layers under the log and the engines, and the command line.
_INTERNAL = {"cli", "format", "log", "storage"}


class _Page(HTMLParser):
    """The anchors of a page, the addresses that it loads, and those that it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif values.get("rel") != "canonical":
            self.loaded += [values[name] for name in ("href", "src", "srcset", "data", "poster") if name in values]
            self.loaded += re.findall(r"url\(['\"]?([^'\")]+)", values.get("style", ""))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in site.rglob("*.html")}


def _public_modules() -> Iterator[str]:
    yield "binlog"
    yield "binlog.errors"
    for each in pkgutil.iter_modules(binlog.__path__):
        if each.ispkg and each.name not in _INTERNAL:
            yield f"binlog.{each.name}"


def test_every_public_name_has_an_anchor(pages: dict[Path, _Page]) -> None:
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    names = [f"{module}.{name}" for module in _public_modules() for name in importlib.import_module(module).__all__]
    assert len(names) > 200
    assert [name for name in names if name not in anchors] == []


def test_no_page_loads_anything_from_another_host(site: Path, pages: dict[Path, _Page]) -> None:
    loaded = {(path.name, each) for path, page in pages.items() for each in page.loaded}
    for style in site.rglob("*.css"):
        loaded |= {(style.name, each) for each in re.findall(r"url\(['\"]?([^'\")]+)", style.read_text())}
        loaded |= {(style.name, each) for each in re.findall(r"@import\s+['\"]([^'\"]+)", style.read_text())}
    assert len(loaded) > 100
    assert [each for each in loaded if urlsplit(each[1]).netloc] == []


def test_links_lead_to_pages_and_headings_of_the_site(pages: dict[Path, _Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            found = urlsplit(link)
            if found.scheme or path.name == "404.html":  # a server sends 404.html for any path
                continue
            target = (path.parent / unquote(found.path)).resolve() if found.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (found.fragment and unquote(found.fragment) not in pages[target].anchors):
                broken.append((path.name, link))
    assert broken == []


def test_files_outside_the_documents_are_pages_of_the_site(site: Path) -> None:
    for name in ("index", "documents", "changelog", "native", "decisions/index", "examples/index"):
        assert (site / f"{name}.html").exists()
    assert "<h1" in (site / "examples" / "http_worker.py.html").read_text()


def test_a_page_that_loads_a_font_from_another_host_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<link href="https://fonts.example/a.css" rel="stylesheet"><a id="x" href="https://example">x</a>')
    assert [urlsplit(each).netloc for each in _Page(page).loaded] == ["fonts.example"]

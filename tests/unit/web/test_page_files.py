"""The files of the page: in the wheel, without inline code, and with text from a log only as text."""

from __future__ import annotations

import re
import tomllib

import pytest

from binlog.web.application import page_files
from tests.support.checkout import ROOT

FILES = page_files()
SCRIPTS = {name: data.decode() for name, (data, _) in FILES.items() if name.endswith(".js")}
# Calls that make elements or code of text.
_UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\b"
    r"|new Function|setTimeout\([\"'`]|setAttribute\([\"']on|javascript:"
)


def test_every_file_of_the_page_is_served_and_packed() -> None:
    folder = ROOT / "binlog" / "web" / "static"
    assert set(FILES) == {path.name for path in folder.iterdir()}
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert packed["binlog.web"] == ["static/*"]


def test_the_page_names_only_files_that_it_has() -> None:
    html = FILES["index.html"][0].decode()
    named = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert named
    assert {name.removeprefix("/static/") for name in named} <= set(FILES)
    for text in SCRIPTS.values():
        assert {name.removeprefix("./") for name in re.findall(r'from "([^"]*)"', text)} <= set(FILES)


def test_every_element_that_a_script_names_is_in_the_page() -> None:
    ids = set(re.findall(r'\bid="([^"]*)"', FILES["index.html"][0].decode()))
    named = {name for text in SCRIPTS.values() for name in re.findall(r'element\("([^"]*)"\)', text)}
    assert len(named) > 30
    assert named <= ids


def test_nothing_is_inline() -> None:
    html = FILES["index.html"][0].decode()
    assert re.findall(r"<script(?![^>]* src=)|<style| style=| on\w+=|javascript:", html) == []
    assert "http" not in html


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_elements_of_text(name: str) -> None:
    assert _UNSAFE.findall(SCRIPTS[name]) == []


def test_a_script_that_does_is_found() -> None:
    for text in ("node.innerHTML = text", "eval(text)", "node.setAttribute('onclick', text)", "setTimeout('x()')"):
        assert _UNSAFE.search(text)


def test_text_is_set_in_two_places_only() -> None:
    """`made` and `say` make every text visible; the text of a record keeps its lines."""
    places = [line.strip() for text in SCRIPTS.values() for line in text.splitlines() if "textContent =" in line]
    assert all("visible" in line or "shown" in line or line.endswith('textContent = "";') for line in places), places

"""The screens of a fixed log are as they were."""

from __future__ import annotations

import pytest

from tests.unit.cli.top.screens import PICTURES, SIZES, SNAPSHOTS, monitor, picture_text, pictures, texts

pytestmark = pytest.mark.slow

_HINT = "if the change is meant: python -m tests.unit.cli.top.screens --write"


def test_the_screens_of_a_fixed_log_are_as_they_were() -> None:
    found = texts()
    assert sorted(found) == sorted(path.name for path in SNAPSHOTS.iterdir())
    for name, text in found.items():
        assert text == (SNAPSHOTS / name).read_text(encoding="utf-8"), f"{name}: {_HINT}"


def test_the_pictures_in_the_documents_show_the_present_screens() -> None:
    found = pictures()
    assert found.keys() <= {path.name for path in PICTURES.iterdir()}
    for name, picture in found.items():
        stored = (PICTURES / name).read_text(encoding="utf-8")
        assert "@font-face" not in stored
        assert picture_text(picture) == picture_text(stored), f"{name}: {_HINT}"


def test_what_matters_fits_80x24() -> None:
    for name in ("top-80x24.txt", "monitor-80x24.txt"):
        lines = (SNAPSHOTS / name).read_text().splitlines()
        assert len(lines) == 24
        shown = "\n".join(lines)
        for word in (
            "records/s",
            "falling 3.4/s",
            "rising 42/s",
            "no members",
            "paused",
            "22 records unsealed",
            "ERROR",
        ):
            assert word in shown, (name, word)


def test_the_screen_is_in_ascii_for_a_terminal_that_has_nothing_else() -> None:
    assert (SNAPSHOTS / "top-ascii.txt").read_text().isascii()
    drawn = monitor(SIZES[0], ascii_only=True).file
    drawn.flush()
    assert drawn.buffer.getvalue().isascii()

"""The screens of the fixed log, as text and as pictures; `python -m tests.unit.cli.top.screens --write` makes them.

The text is in snapshots/ here, the pictures for the documents are in docs/pictures/.
"""

from __future__ import annotations

import asyncio
import html
import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

import binlog
from binlog.cli.top.app import TopApp
from binlog.cli.watching.monitor_view import MonitorView
from tests.unit.cli.top.fixed_log import RECORDS, SNAPSHOT, fixed_app

SNAPSHOTS = Path(__file__).parent / "snapshots"
PICTURES = Path(__file__).parents[4] / "docs" / "pictures"

SIZES = ((80, 24), (120, 40), (200, 60))


def screen_text(app: TopApp) -> str:
    """Return the characters on the screen of an application that runs."""
    strips = app.screen._compositor.render_strips()
    return "".join(f"{strip.text.rstrip()}\n" for strip in strips)


def top(
    size: tuple[int, int], keys: Sequence[str], render: Callable[[TopApp], str], *, ascii_only: bool = False
) -> str:
    """Run `binlog top` on the fixed log, press keys, and return the result of `render`."""

    async def pressed() -> str:
        app = fixed_app(ascii_only=ascii_only)
        async with app.run_test(size=size) as pilot:
            await pilot.press(*keys)
            await pilot.pause()
            return render(app)

    return asyncio.run(pressed())


def monitor(size: tuple[int, int], *, ascii_only: bool = False) -> Console:
    """Draw `binlog monitor` of the fixed log on a console that recorded it."""
    encoding = "ascii" if ascii_only else "utf-8"
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    console = Console(
        record=True, file=file, width=size[0], height=size[1], force_terminal=True, highlight=False, _environ={}
    )
    entries = [binlog.Entry(view.ref, view.data) for view in RECORDS]
    console.print(MonitorView(replace(SNAPSHOT, last=entries)))
    return console


def texts() -> dict[str, str]:
    """Return the snapshots, by the names of their files."""
    found = {}
    for size in SIZES:
        name = f"{size[0]}x{size[1]}.txt"
        found[f"top-{name}"] = top(size, (), screen_text)
        found[f"monitor-{name}"] = monitor(size).export_text()
    found["top-ascii.txt"] = top(SIZES[0], (), screen_text, ascii_only=True)
    found["top-record.txt"] = top(SIZES[0], ("space", "up", "up", "enter"), screen_text)
    found["top-hexadecimal.txt"] = top(SIZES[0], ("space", "up", "up", "up", "up", "enter"), screen_text)
    found["top-filter.txt"] = top(SIZES[0], ("slash",), screen_text)
    return found


def pictures() -> dict[str, str]:
    """Return the pictures, by the names of their files."""
    size = (100, 30)
    return {
        "top.svg": _without_fonts(top(size, (), lambda app: app.export_screenshot(title="binlog top"))),
        "top-record.svg": _without_fonts(
            top(size, ("space", "up", "up", "enter"), lambda app: app.export_screenshot(title="binlog top"))
        ),
        "monitor.svg": _without_fonts(monitor(size).export_svg(title="binlog monitor")),
    }


def picture_text(svg: str) -> str:
    """Return the text in a picture."""
    return html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))).replace("\xa0", " ")


def _without_fonts(svg: str) -> str:
    """Remove the fonts that a browser would load from another machine."""
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def main() -> int:
    """Write all screens."""
    if sys.argv[1:] != ["--write"]:
        print(f"usage: {__spec__.name} --write", file=sys.stderr)
        return 2
    for folder, files in ((SNAPSHOTS, texts()), (PICTURES, pictures())):
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

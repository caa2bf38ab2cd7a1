"""Bars as SVG: groups of horizontal bars, each with its name, its figure and its range.

One file is for light and dark screens: its style asks for the reader's color scheme.  It has a background of its own,
because a page may have another scheme than the reader's system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from stress.bench import figures
from stress.bench.sample import Spread

_WIDTH, _MARGIN = 760, 16
_BAR_START, _BAR_END = 220, 650
_BAR_HEIGHT, _BAR_STEP, _GROUP_GAP = 14, 20, 12
_TITLE_HEIGHT, _LABEL_HEIGHT = 68, 22

_STYLE = """
  .ground { fill: #ffffff } text { fill: #24292f; font: 13px system-ui, sans-serif }
  .title { font-size: 17px; font-weight: 600 } .small { fill: #57606a; font-size: 12px }
  .label { font-weight: 600 } .ours { fill: #00796b } .other { fill: #90a4ae } .floor { fill: #cfd8dc }
  .range { stroke: #24292f; stroke-opacity: 0.55 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #1b1f24 } text { fill: #e6edf3 } .small { fill: #9da7b1 }
    .ours { fill: #4db6ac } .other { fill: #607d8b } .floor { fill: #3d4a52 } .range { stroke: #e6edf3 }
  }
"""


@dataclass(frozen=True)
class Bar:
    """A figure and its range.  kind: `ours`, `other` or `floor`, which chooses the color."""

    name: str
    spread: Spread
    kind: str


@dataclass(frozen=True)
class Group:
    """Bars next to each other.  label: above them; may be empty."""

    label: str
    bars: Sequence[Bar]


def bar_chart(title: str, subtitle: str, groups: Sequence[Group]) -> str:
    """Return the picture.  All bars have one scale, which begins at 0."""
    most = max(bar.spread.high for group in groups for bar in group.bars)
    lines: list[str] = []
    y = _TITLE_HEIGHT
    for group in groups:
        if group.label:
            lines.append(_text(_MARGIN, y + 12, group.label, "label"))
            y += _LABEL_HEIGHT
        for bar in group.bars:
            lines += _bar(bar, y, (_BAR_END - _BAR_START) / most)
            y += _BAR_STEP
        y += _GROUP_GAP
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{y}" rx="6"/>',
        _text(_MARGIN, 28, title, "title"),
        _text(_MARGIN, 48, subtitle, "small"),
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


def _bar(bar: Bar, y: int, scale: float) -> Iterator[str]:
    middle = y + _BAR_HEIGHT / 2
    median, low, high = (bar.spread.median * scale, bar.spread.low * scale, bar.spread.high * scale)
    yield _text(_BAR_START - 8, y + 12, bar.name, "name", ' text-anchor="end"')
    yield f'<rect class="{bar.kind}" x="{_BAR_START}" y="{y}" width="{max(median, 1):.1f}" height="{_BAR_HEIGHT}"/>'
    yield f'<path class="range" d="M{_BAR_START + low:.1f} {middle}H{_BAR_START + high:.1f}"/>'
    yield _text(round(_BAR_START + max(median, high)) + 8, y + 12, figures.number(bar.spread.median), "small")


def _text(x: int, y: int, text: str, kind: str, more: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}"{more}>{escape(text)}</text>'

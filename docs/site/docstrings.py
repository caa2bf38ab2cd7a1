"""A Griffe extension: the docstrings of binlog as Markdown, without a change of their words.

A statement of a docstring begins at the margin, and its other lines are indented, or are prose that continues.  A
statement that begins with names and a colon, such as `path: the directory`, becomes an item of a list; several of them
may share a line, with two spaces between them.  The names of errors and documents become links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import Attribute, Class, Docstring, Extension, Module, Object

from binlog import errors

_NAMED = r"(?:\*{0,2}\w+)(?:, \*{0,2}\w+)*: "
_ITEM = re.compile(rf"({_NAMED})(.*)", re.DOTALL)
_SEPARATE = re.compile(rf"  (?={_NAMED})")
_WORD = re.compile(r"(?<![\w.])[A-Z]\w+\b")
_DOCUMENT = re.compile(r"\bdocs/([\w-]+)\.md")
_SPECIAL = re.compile(r"([*_<\[\]])")


class Docstrings(Extension):
    """Rewrites each docstring when it is loaded, and hides members without one, which the class's docstring names.

    A member of an enum has the comment on its line.
    """

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = summary(text) if isinstance(obj, Module) else markdown(text)
        elif isinstance(obj.parent, Class) and isinstance(obj, Attribute) and _is_enum(obj.parent):
            _, _, comment = obj.source.partition("  # ")
            obj.docstring = Docstring(_prose(comment)) if comment else None

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """Hide the members of classes that still have no docstring."""
        if pkg.docstring:  # `on_object` is not called for it
            pkg.docstring.value = summary(pkg.docstring.value)
        for obj in _classes(pkg):
            if not _is_enum(obj):
                for name in [name for name, each in obj.members.items() if not each.has_docstring]:
                    if name != "__init__":  # its signature is the class's
                        del obj.members[name]


def _classes(parent: Object) -> Iterator[Class]:
    for each in parent.members.values():
        if isinstance(each, Class):
            yield each
        if isinstance(each, Class | Module):
            yield from _classes(each)


def _is_enum(owner: Class) -> bool:
    return any("Enum" in str(base) or "Flag" in str(base) for base in owner.bases)


def summary(docstring: str) -> str:
    """Return the first paragraph of a docstring as Markdown; those after it in a module's are about its source."""
    return _prose(" ".join(docstring.strip().partition("\n\n")[0].split()))


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown."""
    start, *rest = re.split(r"\n\s*\n", docstring.strip())
    if _ITEM.match(start):
        return "\n\n".join(map(_paragraph, (start, *rest)))
    first, *items = _SEPARATE.split(" ".join(start.split("\n")))
    return "\n\n".join([_prose(first), *(_paragraph(text) for text in ("\n".join(items), *rest) if text)])


def _paragraph(text: str) -> str:
    if text.startswith("    "):
        return text  # an example
    blocks: list[str] = []
    for statement in _statements(text.splitlines()):
        item = _ITEM.fullmatch(statement)
        line = f"**{_escaped(item[1].rstrip(': '))}**: {_prose(item[2])}" if item else _prose(statement)
        # Raises and Blocks begin paragraphs; arguments, and lines with a dash, are items.
        if (item and item[1][0].islower()) or statement.startswith("- "):
            line = f"- {line.removeprefix('- ')}"
            if blocks and blocks[-1].startswith("- "):
                blocks[-1] += f"\n{line}"
                continue
        blocks.append(line)
    return "\n\n".join(blocks)


def _statements(lines: list[str]) -> Iterator[str]:
    """Join the lines of each statement."""
    joined: list[str] = []
    for line in lines:
        if joined and (line.startswith(" ") or not _starts(line, joined[-1])):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    for statement in joined:
        yield from _SEPARATE.split(statement)


def _starts(line: str, before: str) -> bool:
    """Return whether a line at the margin begins a statement, and does not continue prose."""
    if line.startswith("- "):
        return True
    if _ITEM.match(line):
        return before.endswith((".", ":", ";"))
    return bool(_ITEM.match(before)) and before.endswith((".", ":"))


def _prose(text: str) -> str:
    """Return text in which Markdown changes nothing but code in backquotes, and the names of errors are links."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _linked(_escaped(part)) for part in parts)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _linked(text: str) -> str:
    text = _DOCUMENT.sub(r"[\g<0>](../\1.md)", text)
    return _WORD.sub(
        lambda word: f"[{word[0]}][binlog.errors.{word[0]}]" if word[0] in errors.__all__ else word[0], text
    )

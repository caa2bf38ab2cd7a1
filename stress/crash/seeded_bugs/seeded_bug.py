"""Seeded bugs: changes to functions of the sources, which are found by name."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path


class SeedingError(Exception):
    """The function or its text does not occur exactly once, or the bug does not compile."""


@dataclass(frozen=True)
class Change:
    """A change: text of a function, and its replacement.

    path: of the file, from the root of the sources.  function: as `Class.method` in Python.
    old: must occur exactly once in the function.  Later lines of `old` and `new` are indented relative to the line in
        which `old` begins.
    """

    path: str
    function: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the changed source.  Raises: SeedingError."""
        start, stop = (_python_function if self.path.endswith(".py") else _c_function)(source, self)
        text = source[start:stop]
        found = [(match.start(), indent) for match, indent in _line_starts(text, self.old)]
        if len(found) != 1:
            raise SeedingError(f"{self.path}: {self.function} has {len(found)} occurrences of:\n{self.old}")
        at, indent = found[0]
        old, new = _indented(self.old, indent), _indented(self.new, indent)
        return source[:start] + text[:at] + new + text[at + len(old) :] + source[stop:]


def _line_starts(text: str, old: str) -> list[tuple[re.Match[str], str]]:
    """Find `old` in the text, each with the indentation of its line."""
    found = []
    for match in re.finditer(re.escape(old.partition("\n")[0]), text):
        line = text[text.rfind("\n", 0, match.start()) + 1 :]
        indent = line[: len(line) - len(line.lstrip(" "))]
        if text.startswith(_indented(old, indent), match.start()):
            found.append((match, indent))
    return found


def _indented(text: str, indent: str) -> str:
    return text.replace("\n", "\n" + indent)


def _python_function(source: str, change: Change) -> tuple[int, int]:
    """Return the start and end of a Python function."""
    nodes: list[ast.AST] = [ast.parse(source)]
    for name in change.function.split("."):
        nodes = [
            each
            for node in nodes
            for each in ast.iter_child_nodes(node)
            if isinstance(each, (ast.FunctionDef, ast.ClassDef)) and each.name == name
        ]
    if len(nodes) != 1 or not isinstance(nodes[0], ast.FunctionDef):
        raise SeedingError(f"{change.path} has no function {change.function}")
    lines = source.splitlines(keepends=True)
    first, last = nodes[0].lineno - 1, nodes[0].end_lineno
    return len("".join(lines[:first])), len("".join(lines[:last]))


def _c_function(source: str, change: Change) -> tuple[int, int]:
    """Return the start and end of a C function, which starts in the first column and ends with a brace there."""
    definition = rf"^(?=\w)[^;{{}}\n]*\b{change.function}\([^;{{}}]*\)\n{{\n.*?^}}\n"
    found = re.findall(definition, source, re.MULTILINE | re.DOTALL)
    if len(found) != 1:
        raise SeedingError(f"{change.path} has {len(found)} functions {change.function}")
    start = source.index(found[0])
    return start, start + len(found[0])


@dataclass(frozen=True)
class SeededBug:
    """A bug that the harness must find.

    name: of the recorder's switch too, if there are no changes.  part: the part that finds it.  description: of the
    bug.
    """

    name: str
    part: str
    description: str
    changes: tuple[Change, ...] = ()

    @property
    def is_switch(self) -> bool:
        """Whether a switch of the recorder seeds it."""
        return not self.changes

    @property
    def is_in_c(self) -> bool:
        """Whether the compiled part must be built again."""
        return any(change.path.endswith(".c") for change in self.changes)

    def changed(self, root: Path) -> dict[str, str]:
        """Return the text of each changed file.  Raises: SeedingError."""
        texts: dict[str, str] = {}
        for change in self.changes:
            text = texts[change.path] if change.path in texts else (root / change.path).read_text()
            texts[change.path] = change.apply(text)
        return texts


def bug_in_function(name: str, part: str, description: str, path: str, function: str, old: str, new: str) -> SeededBug:
    """Return a bug of one change."""
    return SeededBug(name, part, description, (Change(path, function, old, new),))


# In code that journal, page store, commit log and queue share: each has them as a bug of its own.
COMMIT_WITHOUT_SYNC = (
    "native/shared/commit_group.c",
    "write_and_sync",
    "int result, syncing = self->syncing;",
    "int result, syncing = self->syncing > 1;",
)
COMMIT_WITH_A_SECOND_SYNC = (
    "native/shared/commit_group.c",
    "write_and_sync",
    "while ((result = fdatasync(fd) != 0 ? errno : 0) == EINTR)\n    continue;",
    "result = fdatasync(fd) != 0 && fdatasync(fd) != 0 ? errno : 0;",
)

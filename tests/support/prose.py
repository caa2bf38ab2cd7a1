"""Check the project's prose: comments, docstrings, messages and documents, and words that they must not use.

`python -m tests.support.prose [PATH ...]` lists each such word with its replacement, and the rates of some words.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

BANNED = {
    r"whoever|whomever": "the process, writer, reader or caller that ...",
    r"nobody|somebody|anybody|everybody": "no process, another writer, each caller, the user ...",
    r"lies|lie|lay|lying|lain": "is, starts at, is stored in",
    r"stands|stand|stood": "is, is written",
    r"anew": "again",
    r"behind": "after; `ahead of` and `lag` of a follower",
    r"(?:goes|go|went|gone|going) on": "continues, resumes",
    r"(?:comes|come|came|coming) to": "reaches, becomes",
    r"(?:is|are|was|were|be|been|being) told": "learns, gets, receives; `reports` of what tells",
    r"unless told(?: otherwise)?": "by default",
    r"so (?:many|much)": "n; that many",
    r"settles?|settled|settling": "recovers, resolves, waits for, validates",
    r"(?:is|are|was|were|be|been) there": "exists, exist",
    r"looks?|looked|looking": "reads, checks, searches (`look up` in an index)",
    r"thereof|whereof|wherein|whereupon|thereby|hereby": "of it, in it, by that",
    r"of its own accord|by itself": "automatically; alone",
    r"has (?:it|them|all|these|those) be|have (?:it|them|all|these|those) be": "makes, syncs, marks",
}
"""Patterns of whole words that no text may have, each with its replacement."""

RATES = {
    "if": (r"if", 5.0, None),
    "where": (r"where", None, 1.0),
    "what or who": (r"what|who|whom|whose", None, 2.0),
}
"""Words with a least, or a greatest, rate in a thousand words of comments and docstrings."""

_LOOK_UP = re.compile(r"look(?:s|ed|ing)? (?:it |them |each )?up\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`\n]*`|``.*?``")
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|fmt:|mypy:|ruff:|!|pragma)")
_C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_C_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
_banned = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in BANNED.items()}
_any_banned = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)


class Text(NamedTuple):
    """Prose of a file.  kind: "comment", "docstring", "message" or "document"."""

    path: str
    line: int
    kind: str
    text: str


def texts(path: Path) -> Iterator[Text]:
    """Yield the prose of a file, without code in backticks."""
    source, name = path.read_text(), str(path.relative_to(ROOT))
    match path.suffix:
        case ".py":
            yield from _python(source, name)
        case ".c" | ".h":
            yield from _c(source, name)
        case ".md":
            yield from _markdown(source, name)


def _python(source: str, name: str) -> Iterator[Text]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield Text(name, token.start[0], "comment", token.string.lstrip("# "))
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        for child in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                docstrings.add(child.value)
                for at, line in enumerate(child.value.value.split("\n")):
                    yield Text(name, child.lineno + at, "docstring", _CODE.sub("", line))
    if not name.startswith("tests/"):
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
            if is_text and " " in node.value and len(_WORD.findall(node.value)) > 2:
                yield Text(name, node.lineno, "message", _CODE.sub("", node.value))


def _c(source: str, name: str) -> Iterator[Text]:
    for match in _C_COMMENT.finditer(source):
        first = source.count("\n", 0, match.start()) + 1
        for at, line in enumerate(match[0].split("\n")):
            yield Text(name, first + at, "comment", _CODE.sub("", line.strip("/* ")))
    bare = _C_COMMENT.sub(lambda match: "\n" * match[0].count("\n"), source)
    for match in _C_STRING.finditer(bare):
        if len(_WORD.findall(match[0])) > 2:
            yield Text(name, bare.count("\n", 0, match.start()) + 1, "message", _CODE.sub("", match[0]))


def _markdown(source: str, name: str) -> Iterator[Text]:
    is_code = False
    for at, line in enumerate(source.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield Text(name, at, "document", re.sub(r"\]\([^)]*\)", "]", _CODE.sub("", line)))


def offences(found: Iterable[Text]) -> Iterator[tuple[Text, str, str]]:
    """Yield each banned word: the text, the word, and its replacement."""
    for each in found:
        text = _LOOK_UP.sub("", each.text)
        if not _any_banned.search(text):
            continue
        for pattern, instead in _banned.items():
            for match in pattern.finditer(text):
                yield each, match[0], instead


def rates(found: Iterable[Text]) -> dict[str, float]:
    """Return how often each of RATES occurs in a thousand words of comments and docstrings."""
    words = " ".join(each.text for each in found if each.kind in ("comment", "docstring"))
    count = max(len(_WORD.findall(words)), 1)
    return {
        name: 1000 * len(re.findall(rf"\b(?:{pattern})\b", words, re.IGNORECASE)) / count
        for name, (pattern, _, _) in RATES.items()
    }


def files(paths: Iterable[str] = ()) -> list[Path]:
    """Return the files of the checkout that have prose; only those under these paths, if there are any."""
    listed = subprocess.run(["git", "ls-files", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split() if Path(name).suffix in (".py", ".c", ".h", ".md")]


def main() -> int:
    """See the module."""
    found = [text for path in files(sys.argv[1:]) for text in texts(path)]
    count = 0
    for text, word, instead in offences(found):
        count += 1
        print(f"{text.path}:{text.line}: {word!r}: {instead} | {text.text.strip()[:100]}")
    for name, rate in rates(found).items():
        _, least, most = RATES[name]
        limit = f"at least {least}" if least is not None else f"at most {most}"
        print(f"{name}: {rate:.1f} in a thousand words ({limit})")
    print(f"{count} words to replace")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

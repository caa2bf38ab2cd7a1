"""A hook of MkDocs: pages of the site for files outside docs/, and for the folder of the decisions.

The documents link to such files with the paths that they have in the checkout, as a forge expects.  `on_files` adds
a page for each file that a document links to, and `on_page_markdown` lets the links lead to these pages.  Nothing
else in a document is changed.  README.md is the first page of the site, so docs/index.md gets another name.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_DOCS = "docs"
_DECISIONS = "docs/decisions"

# Paths in the checkout, and in the site.
_PAGES = {
    "README.md": "index.md",
    "docs/index.md": "documents.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples/index.md",
    "examples/readers/README.md": "examples/readers/index.md",
    "native/README.md": "native.md",
    _DECISIONS: "decisions/index.md",
}
_LANGUAGES = {
    ".py": "python", ".sh": "sh", ".service": "ini", ".timer": "ini", ".yml": "yaml", ".json": "json", ".go": "go",
    ".js": "javascript", ".java": "java",
}  # fmt: skip

# A link to a place in the checkout; a colon is in the address of another host.
_LINK = re.compile(r"\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of files outside docs/, the list of decisions, and docs/index.md under its other name."""
    root = Path(config.docs_dir).parent
    index = files.get_file_from_path("index.md")
    assert index is not None
    files.remove(index)
    for path in sorted(_linked(root) | set(_PAGES)):
        files.append(File.generated(config, _page(path), content=_content(root, path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Return the text with links to the pages of the site."""
    here = page.file.src_uri
    origin = _origin(here)
    if not origin.endswith(".md"):
        return markdown  # a program, which has no links

    def link(match: re.Match[str]) -> str:
        path = os.path.normpath(os.path.join(os.path.dirname(origin), match[1]))
        return f"]({os.path.relpath(_page(path), os.path.dirname(here))}{match[2] or ''})"

    return _LINK.sub(link, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with the `|` of the commands in tables, which a forge shows without the backslash too."""
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html, flags=re.DOTALL)


def _page(path: str) -> str:
    """Return the path in the site of a file or folder of the checkout."""
    if path in _PAGES:
        return _PAGES[path]
    if path.startswith(f"{_DOCS}/"):
        return path.removeprefix(f"{_DOCS}/")
    return f"{path}.md"


def _origin(page: str) -> str:
    """Return the path in the checkout of a page of the site."""
    for path, name in _PAGES.items():
        if name == page:
            return f"{path}/index.md" if path == _DECISIONS else path
    return page.removesuffix(".md") if page.startswith("examples/") else f"{_DOCS}/{page}"


def _linked(root: Path) -> set[str]:
    """Return the files outside docs/ that a document links to."""
    documents = [root / path for path in _PAGES if path.endswith(".md")] + list((root / _DOCS).rglob("*.md"))
    found = set()
    for document in documents:
        folder = document.parent.relative_to(root)
        paths = {os.path.normpath(folder / match[1]) for match in _LINK.finditer(document.read_text())}
        found |= {path for path in paths if not path.startswith(f"{_DOCS}/") and (root / path).is_file()}
    return found


def _content(root: Path, path: str) -> str:
    if path == _DECISIONS:
        pages = sorted((root / path).glob("[0-9]*.md"))
        titles = [page.read_text().partition("\n")[0].removeprefix("# ") for page in pages]
        links = [f"{int(page.name[:4])}. [{title}]({page.name})" for page, title in zip(pages, titles, strict=True)]
        return "# Decisions\n\nThe reasons for the design, with measurements.\n\n" + "\n".join(links) + "\n"
    text = (root / path).read_text()
    if path.endswith(".md"):
        return text
    name = os.path.basename(path)
    return f"# {name}\n\n```{_LANGUAGES.get(Path(path).suffix, 'text')}\n{text}```\n"

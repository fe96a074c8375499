"""What the site needs beside its pages: the repository's own papers as pages, and links that leave the pages.

MkDocs calls ``on_files`` once with what it found, ``on_page_markdown`` for each page before it is rendered,
and ``on_post_page`` when it is.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAPERS = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "benchmarks/RESULTS.md": "project/measurements.md",
}
"""Where each is in the repository, and on the site."""
README = "README.md"
CELL = re.compile(r"(?P<first><tr>\n)?<td.*?</td>", re.S)
CODE = re.compile(r"<code>([^<]*)</code>")
JOINT = re.compile(r'(?:::|[/_=,]|\.(?!\w{1,4}$))(?=[\w{\["&])')
"""Not before the ending of a file's name."""
WHOLE = 44
"""Characters up to which a name in the first column stays whole: it is what the table is about."""
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<to>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    for paper, page in PAPERS.items():
        files.append(File.generated(config, page, content=(ROOT / paper).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """A link to another of the site's pages leads there; one to a file that the site does not have becomes
    the file's name.
    """
    uri = page.file.src_uri
    paper = next((paper for paper, there in PAPERS.items() if there == uri), None)
    folder = posixpath.dirname(paper or f"docs/{uri}")

    def there(link: re.Match[str]) -> str:
        if "://" in link["to"]:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, link["to"]))
        if not (ROOT / path).exists():
            return link[0]  # MkDocs says which it is
        target = PAPERS.get(path) or ("index.md" if path == README else path.removeprefix("docs/"))
        if target == path:
            return f"{link['text'].strip('`')} (`{path}`)" if link["text"].strip("`") != path else f"`{path}`"
        to = posixpath.relpath(target, posixpath.dirname(uri) or ".")
        return f"[{link['text']}]({to}{link['anchor'] or ''})"

    return LINK.sub(there, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """A name in a table may be broken where its parts meet and nowhere else; the search has it whole."""
    return CELL.sub(_breakable, output)


def _breakable(cell: re.Match[str]) -> str:
    def code(found: re.Match[str]) -> str:
        if cell["first"] and len(found[1]) <= WHOLE:
            return found[0]
        broken = JOINT.sub(r"\g<0><wbr>", found[1])
        return f"<code>{broken}</code>"

    return CODE.sub(code, cell[0])

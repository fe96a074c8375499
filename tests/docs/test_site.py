"""The documentation as a site: complete, and without a link that leads nowhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpu_kernels.cli import reference
from tests.browser import expect, needs_chromium, one_page
from tests.native_build import ROOT

MKDOCS = ROOT / "build" / "docs" / "bin" / "mkdocs"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
PLACE = re.compile(r"^\| (?P<behaviour>[^|]+) \| `(?P<file>[^`]+)` \| `(?P<name>[\w.]+)` \|$", re.M)
PLACES = list(PLACE.finditer(ARCHITECTURE.read_text()))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MKDOCS.exists():
        pytest.skip("MkDocs is not here: make docs")
    folder = tmp_path_factory.mktemp("site")
    command = [MKDOCS, "build", "--strict", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return folder


def test_it_has_every_page_and_the_repositorys_papers(site: Path) -> None:
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix(".html")) for page in (ROOT / "docs").rglob("*.md")
    }
    papers = {
        f"project/{paper}.html" for paper in ("changelog", "contributing", "security-policy", "measurements")
    }
    assert pages | papers <= {str(page.relative_to(site)) for page in site.rglob("*.html")}


def test_a_reader_asks_no_other_machine_for_anything(site: Path) -> None:
    fetched = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:)?//', re.I)
    assert not [
        str(page.relative_to(site)) for page in site.rglob("*.html") if fetched.search(page.read_text())
    ]


def test_the_search_finds_the_fields_words(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text()
    for term in ("fencing token", "leader election", "backfill", "rate limiter", "reconvergence"):
        assert term in index


INDEXED_WITHIN_MS = 60_000
"""The page makes its index when something is looked for: long on a busy machine."""


@pytest.mark.browser
@needs_chromium
def test_the_search_works_where_the_site_is_read_from_a_folder_and_asks_nobody(site: Path) -> None:
    with one_page() as page:
        outside: list[str] = []
        page.on("request", lambda asked: outside.append(asked.url))
        page.goto((site / "reference" / "glossary.html").as_uri())
        page.fill(".md-search__input", "fencing token")
        found = expect(page.locator(".md-search-result__meta"))
        found.to_contain_text("matching document", timeout=INDEXED_WITHIN_MS)
        expect(page.locator(".md-search-result__item").nth(1)).to_be_attached(timeout=INDEXED_WITHIN_MS)
        assert [url for url in outside if not url.startswith(("file:", "data:", "about:"))] == []


@pytest.mark.browser
@needs_chromium
def test_no_table_is_wider_than_its_page(site: Path) -> None:
    wider = """() => [...document.querySelectorAll('.md-typeset__scrollwrap')]
        .filter((table) => table.scrollWidth > table.clientWidth + 2)
        .map((table) => table.innerText.slice(0, 60))"""
    with one_page() as page:
        page.set_viewport_size({"width": 1300, "height": 900})
        looked_at = 0
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
            looked_at += page.locator(".md-typeset__scrollwrap").count()
            assert page.evaluate(wider) == [], path.relative_to(site)
        assert looked_at > 100


def test_the_python_page_has_calls_with_their_parameters_and_resources_with_their_fields(site: Path) -> None:
    page = (site / "reference" / "python-api.html").read_text()
    ask = page.split('id="gpu_kernels.client.PoolClient.ask"', 1)[1].split("<h4", 1)[0]
    assert "wait_for_course" in ask
    assert ">Lease</a>" in ask  # what it answers, and not the request
    assert "Seconds to stand in the queue" in ask
    lease = page.split('id="gpu_kernels.client.Lease"', 1)[1].split("<h4", 1)[0]
    assert "Seconds until it ends unless renewed" in lease
    assert ">holder<" in lease
    assert "Annotated" not in page
    assert "Its code is <code>course_limit</code>" in page


def test_the_command_line_page_says_what_the_code_takes() -> None:
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    assert reference.page() == page, "run: python -m gpu_kernels.cli.reference docs/reference/command-line.md"


def test_every_row_of_the_architectures_table_is_looked_up() -> None:
    table = ARCHITECTURE.read_text().split("## Where is", 1)[1].split("\n## ", 1)[0]
    rows = [
        line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| behaviour")
    ]
    assert len(rows) == len(PLACES) > 10


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place["name"])
def test_the_architecture_names_the_place_of_each_behaviour(place: re.Match[str]) -> None:
    defined = re.compile(rf"(\bdef |\bclass |^|::|\s){re.escape(place['name'])}\b", re.M)
    assert defined.search((ROOT / place["file"]).read_text())

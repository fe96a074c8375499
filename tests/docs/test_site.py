"""The documentation as a site: complete, and without a link that leads nowhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gpu_kernels.cli import reference
from tests.native_build import ROOT

MKDOCS = ROOT / "build" / "docs" / "bin" / "mkdocs"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
PLACE = re.compile(r"^\| (?P<behaviour>[^|]+) \| `(?P<file>[^`]+)` \| `(?P<name>\w+)` \|$", re.M)
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


@pytest.mark.parametrize(
    "place", list(PLACE.finditer(ARCHITECTURE.read_text())), ids=lambda place: place["name"]
)
def test_the_architecture_names_the_place_of_each_behaviour(place: re.Match[str]) -> None:
    defined = re.compile(rf"(\bdef |\bclass |^|::|\s){place['name']}\b", re.M)
    assert defined.search((ROOT / place["file"]).read_text())

"""A real browser for tests: Chromium without a window, patient, and a folder for its screenshots."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OUTPUT = Path(__file__).parent / "output"
PATIENCE_MS = 100_000

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    OUTPUT.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        expect.set_options(timeout=PATIENCE_MS)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def one_page() -> Iterator[Page]:
    with launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        yield page

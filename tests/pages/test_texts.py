"""Every text goes through gettext: pages rendered with a catalogue that marks what it translates."""

import gettext
import re
from html.parser import HTMLParser
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpu_kernels.hub_config.pages import catalogue
from gpu_kernels.hub_config.pages.texts import Texts, make_language, wanted
from gpu_kernels.hub_config.pages.wording import Wording
from tests.pages.site import NAVIGATE, PREFIX, HubUser, Site, in_days
from tests.pool.controller import reserve

SAID = ("title", "alt", "placeholder", "aria-label", "data-confirm")
NAMES = (
    "ada",
    "root",
    "grace",
    "eve",
    "ml101",
    "cv202",
    "gpu1",
    "V100",
    "UTC",
    "ipynb",
    "JupyterHub",
    "kernel",
    "mark",
)
"""What the controller and people call things."""


class Marking(gettext.NullTranslations):
    """Puts brackets around everything that it translates."""

    def gettext(self, message):
        return f"⟦{message}⟧"

    def ngettext(self, one, many, number):
        return f"⟦{one if number == 1 else many}⟧"


class MarkingTexts:
    def __init__(self):
        self._marking = make_language("en", Marking())

    def language(self, accepted):
        return self._marking


class Said(HTMLParser):
    """What a page says: its text, and the attributes that are read out; not what is marked as data, or as the
    controller's English.
    """

    def __init__(self):
        super().__init__()
        self.found, self._open = [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.found += (
            []
            if values.get("translate") == "no"
            else [
                value for name, value in attributes if value and (name in SAID or name.startswith("data-say"))
            ]
        )
        if tag not in ("meta", "link", "input", "img", "br", "hr"):
            data = values.get("translate") == "no" or ("lang" in values and tag != "html")
            self._open.append(f"{tag} of data" if data else tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop().partition(" ")[0] != tag:
            pass

    def handle_data(self, data):
        if not any(tag.endswith("of data") or tag == "script" for tag in self._open):
            self.found.append(data)


def unmarked(html):
    """The words of a page that nothing has translated."""
    page = Said()
    page.feed(html)
    left = []
    for text in page.found:
        rest = text
        while (inner := re.sub(r"⟦[^⟦⟧]*⟧", " ", rest)) != rest:
            rest = inner
        rest = re.sub("|".join(NAMES), " ", rest)
        left += re.findall(r"[A-Za-z]{2,}", rest)
    return left


@pytest.fixture(scope="module")
def marked(controller, gpu, tmp_path_factory):
    site = Site(controller.url, tmp_path_factory.mktemp("marked"))
    site.lab = type(site.lab)(site.lab.controller, MarkingTexts(), site.lab.zone, PREFIX)
    with site:
        yield site


@pytest.fixture(scope="module")
def busy(controller, gpu):
    """Something of everything: a slice, somebody who waits, rules, a class hour, a server that will go."""
    with (
        controller.client("ada") as ada,
        controller.client("eve") as eve,
        controller.client("root") as root,
        controller.client("grace") as grace,
    ):
        root.set_rules(
            "ml101",
            {"hours_per_week": 40.0, "user_hours_per_week": 4.0, "max_size": {"V100": 100}, "idle": 600},
        )
        root.set_standing("gpu1", "open", ends_at="2099-01-01T00:00:00+00:00")
        held = reserve(ada, "a.ipynb")
        gpu.carry_out()
        fills = reserve(eve, "b.ipynb", "0.9 V100")
        waits = reserve(eve, "c.ipynb", "0.1 V100", wait=300)
        hour = grace.add_class_hour(
            course="ml101", size="0.02 V100", seats=1, weekdays=["monday"], start="10:00", minutes=90,
            last_date=in_days(100), except_dates=[in_days(50)],
        )  # fmt: skip
        yield held, waits
        grace.cancel_class_hour(hour.id)
        for pool, lease in ((ada, held), (eve, fills), (eve, waits)):
            pool.release(lease.id, lease.holder)
        root.set_standing("gpu1", "open")
        root.set_rules("ml101", {})
        gpu.carry_out()


PAGES = [
    ("ada", ""),
    ("grace", ""),
    ("root", "?done=released"),
    ("grace", "courses/ml101"),
    ("root", "courses/ml101?student=ada"),
    ("ada", "courses/ml101/class-hours"),
    ("grace", "courses/ml101/class-hours"),
    ("root", "pool"),
    ("root", "servers/gpu1"),
    ("root", "history"),
    ("root", "audit"),
    ("ada", "leases/HELD"),
    ("root", "leases/HELD"),
    ("root", "leases/WAITS"),
    ("root", "nowhere"),
]


@pytest.mark.parametrize(("who", "page"), PAGES)
def test_nothing_is_said_that_cannot_be_translated(marked, busy, who, page):
    held, waits = busy
    HubUser.away = False
    with marked.visitor(who) as visitor:
        answer = visitor.see(page.replace("HELD", held.id).replace("WAITS", waits.id))
    assert "⟦" in answer.text
    assert unmarked(answer.text) == []


def test_refusals_of_forms_are_translated(marked):
    with marked.visitor("grace") as grace:
        for form in ({"do": "limit", "limit.V100": "much"}, {"do": "end_idle"}, {"do": "rules", "idle": "x"}):
            answer = grace.post("courses/ml101", **form)
            assert answer.status_code == 422
            assert unmarked(answer.text) == []
        booking = {"do": "book", "seats": "1", "last_date": "soon"}
        assert unmarked(grace.post("courses/ml101/class-hours", **booking).text) == []


def test_the_test_sees_a_text_that_is_not_translated():
    assert unmarked('<p title="Now">⟦Done⟧ and more</p><code translate="no">some_kind</code>') == [
        "Now",
        "and",
        "more",
    ]


def test_the_catalogues_template_is_that_of_the_texts():
    assert catalogue.TEMPLATE.read_text() == catalogue.extract(), (
        "python -m gpu_kernels.hub_config.pages.catalogue"
    )


def test_a_translation_is_used_by_who_asks_for_its_language(controller, gpu, tmp_path):
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    folder = tmp_path / "de" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    with catalogue.TEMPLATE.open("rb") as file:
        german = read_po(file, locale="de")
    german["My kernels"].string = "Meine Kernel"
    with (folder / "gpu-lab.mo").open("wb") as file:
        write_mo(file, german)
    with Site(controller.url, tmp_path) as site, site.visitor("ada") as ada:
        page = ada.http.get(PREFIX, headers={**NAVIGATE, "Accept-Language": "fr, de-CH;q=0.9, en;q=0.5"}).text
        assert '<html lang="de">' in page
        assert "Meine Kernel" in page
        page = ada.http.get(PREFIX, headers={**NAVIGATE, "Accept-Language": "en, de;q=0.5"}).text
        assert '<html lang="en">' in page


def test_languages_are_taken_in_the_order_that_the_browser_prefers():
    assert wanted("de-CH, fr;q=0.9") == ["de_CH", "de", "fr"]
    assert wanted("fr;q=0.1, de") == ["de", "fr"]
    assert wanted("../../etc, de;q=x, *") == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (200_000, "2 d"),
        (-5, "0 s"),
    ],
)
def test_times_read_as_people_say_them(seconds, text):
    assert Wording(Texts(Path("nowhere")).language("en"), ZoneInfo("UTC")).lasting(seconds) == text

"""What the configuration adds to the hub's own pages, and the dashboard for what the controller measures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jupyterhub
import pytest
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

from gpu_kernels.pool.service.metrics import Metrics

pytestmark = pytest.mark.quick

HUB_CONFIG = Path(__file__).parents[2] / "hub_config"
STOCK = FileSystemLoader(str(Path(DATA_FILES_PATH) / "templates"))
BOARD: dict[str, Any] = json.loads((HUB_CONFIG / "grafana" / "gpu-lab.json").read_text())


def page(services: list[dict[str, str]]) -> str:
    """The hub's page as a logged-in user gets it, loaded as the hub does."""
    ours = FileSystemLoader(str(HUB_CONFIG / "templates"))
    loader = ChoiceLoader([PrefixLoader({"templates": STOCK}, "/"), ours, STOCK])
    environment = Environment(loader=loader, autoescape=True)
    user = {"name": "ana", "spawner": {}}
    given = {"user": user, "services": services, "parsed_scopes": {}, "base_url": "/hub/"}
    more = {"static_url": lambda path, **_: path, "logo_url": "", "logout_url": "", "prefix": "/", "xsrf": ""}
    return environment.get_template("page.html").render(**given, **more, version=jupyterhub.__version__)


def test_the_navigation_leads_to_the_lab_pages() -> None:
    text = page([{"name": "gpu-lab", "href": "/services/gpu-lab/"}])
    assert re.search(r'class="nav-link" href="/services/gpu-lab/">GPU lab<', text)


def test_who_may_not_open_them_sees_no_link() -> None:
    assert "GPU lab" not in page([{"name": "other", "href": "/services/other/"}])


def families() -> set[str]:
    metrics = Metrics()
    return {family.name for family in metrics.registry.collect()}


@pytest.mark.parametrize("panel", BOARD["panels"], ids=lambda panel: str(panel["title"]))
def test_a_panel_asks_for_what_is_measured(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        asked = set(re.findall(r"\bpool_[a-z_]+", target["expr"]))
        assert {re.sub(r"_(total|bucket)$", "", name) for name in asked} <= families()
        assert asked
    assert panel["description"]


def test_everything_that_is_measured_has_a_panel() -> None:
    shown = json.dumps(BOARD["panels"])
    assert [name for name in families() if name not in shown] == []

"""The configuration of a hub of one's own: its names are names that there are, and its rights the demo's."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from typing import Any

import pytest
from traitlets.config import Config

from gpu_kernels.hub_config.pages.app import LabPages
from gpu_kernels.spawner import GPULabMixin
from tests.docs.documents import ROOT, code

pytestmark = pytest.mark.quick

HUB, LOGS, SERVERS = code(ROOT / "docs" / "how-to" / "set-up-a-hub.md", "python")
DEMO = (ROOT / "hub_config" / "jupyterhub_config.py").read_text()


def configured(text: str) -> Config:
    c = Config()
    exec(text, {"c": c})
    return c


def demos(name: str) -> object:
    """What the demo's configuration gives a setting of the hub, where it is a literal."""
    for statement in ast.parse(DEMO).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == f"c.JupyterHub.{name}":
            return ast.literal_eval(statement.value)
    raise AssertionError(name)


def test_the_spawner_is_one_of_ours_and_has_the_settings() -> None:
    hub = configured(HUB)
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert hub.JupyterHub.spawner_class in entry_points["jupyterhub.spawners"]
    text = (ROOT / "docs" / "how-to" / "set-up-a-hub.md").read_text()
    assert [name for name in entry_points["jupyterhub.spawners"] if f"| `{name}` |" not in text] == []
    assert set(hub.GPULabMixin) <= set(GPULabMixin.class_traits(config=True))


def test_the_scopes_are_the_demos() -> None:
    hub = configured(HUB).JupyterHub
    assert hub.custom_scopes == demos("custom_scopes")
    used = {
        scope.partition("!")[0]
        for role in hub.load_roles
        for scope in role["scopes"]
        if scope.startswith("custom:")
    }
    assert used <= set(hub.custom_scopes)


def test_the_panel_may_look_and_no_more() -> None:
    for roles in (configured(HUB).JupyterHub.load_roles, panel_of_the_demo()):
        (panel,) = (role for role in roles if role["name"] == "gpu-panel")
        assert panel["scopes"] == ["custom:gpu:read:usage", "access:services!service=gpu"]


def panel_of_the_demo() -> list[dict[str, Any]]:
    found = re.search(r'"name": "gpu-panel",.*?"scopes": (\[.*?\])', DEMO, re.DOTALL)
    assert found is not None
    return [{"name": "gpu-panel", "scopes": ast.literal_eval(found[1])}]


def test_every_role_is_of_a_service_or_group_that_is_named() -> None:
    hub = configured(HUB).JupyterHub
    services = {service["name"]: service for service in hub.services}
    assert {name for role in hub.load_roles for name in role.get("services", ())} <= set(services)
    command = services["gpu-lab"]["command"]
    assert importlib.util.find_spec(command[2]) is not None
    assert all(word.removeprefix("--") in LabPages.aliases for word in command if word.startswith("--"))


def test_the_hubs_log_is_bounded_by_a_configuration_that_there_is() -> None:
    assert configured(LOGS).JupyterHub.logging_config["handlers"]


def test_the_servers_classes_are_there() -> None:
    for name in configured(SERVERS).ServerApp.values():
        module, _, kind = name.rpartition(".")
        assert hasattr(importlib.import_module(module), kind)

"""The ready spawners: each is what its entry point says, and its servers learn their course."""

from __future__ import annotations

import getpass
import importlib
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from jupyterhub.objects import Hub, Server

from gpu_kernels.spawner import GPULabMixin

CONTROLLER = "http://10.0.0.1:8083/services/gpu"
PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
READY: dict[str, str] = PYPROJECT["project"]["entry-points"]["jupyterhub.spawners"]


class User(Mock):
    """A user as spawners see one."""

    name = escaped_name = getpass.getuser()  # one that has an account, for servers of its own
    server = Server()

    def __init__(self, *groups: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.groups = list(groups)

    @property
    def url(self) -> str:
        return f"/user/{self.name}/"


NO_CLUSTER = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: none, user: {}}]
"""


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes' client reads where its cluster is; nothing here asks it."""
    file = tmp_path / "kubeconfig"
    file.write_text(NO_CLUSTER)
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setattr("kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))


def group(name: str, **properties: str) -> Any:
    return SimpleNamespace(name=name, properties=properties)


def made(name: str, *groups: Any, **traits: Any) -> Any:
    module, _, kind = READY[name].partition(":")
    spawner_class = getattr(importlib.import_module(module), kind)
    orm_spawner = SimpleNamespace(name="", user_options=None, server=None, state={})
    return spawner_class(
        user=User(*groups),
        hub=Hub(),
        orm_spawner=orm_spawner,
        api_token="t",
        oauth_client_id="c",
        gpu_slice_controller=CONTROLLER,
        **({"_mock": True} if name == "gpu-kubernetes" else {}),
        **traits,
    )


@pytest.mark.parametrize("name", READY)
async def test_the_mixin_goes_first(name: str) -> None:
    assert type(made(name)).__mro__[1] is GPULabMixin


@pytest.mark.parametrize("name", READY)
async def test_its_servers_learn_course_controller_and_how_to_start(name: str) -> None:
    spawner = made(name, group("ml101", gpu_start="patient"), group("ml101-instructors"))
    spawner.gpu_slice_course = "ml101"
    env = spawner.get_env()
    told = {key: value for key, value in env.items() if key.startswith("GPU_KERNELS_")}
    assert told == {
        "GPU_KERNELS_CONTROLLER": CONTROLLER,
        "GPU_KERNELS_COURSE": "ml101",
        "GPU_KERNELS_START": "patient",
    }


@pytest.mark.parametrize("name", READY)
async def test_the_course_is_asked_for_above_its_own_form(name: str) -> None:
    spawner = made(name, group("ml101"), group("ds200"), options_form="<input name='own'>")
    form = await spawner.get_options_form()
    assert form.index('name="course"') < form.index("name='own'")


@pytest.mark.parametrize(
    "groups",
    [
        (group("ml101"),),
        (group("ml101", gpu_start="soon"),),
        (group("ds200", gpu_start="patient"), group("ml101")),
        (group("ml101-instructors", gpu_start="patient"),),
        (SimpleNamespace(name="ml101"),),
    ],
)
async def test_only_a_word_on_the_students_group_says_how_kernels_start(groups: tuple[Any, ...]) -> None:
    spawner = made("gpu-simple", *groups)
    spawner.gpu_slice_course = "ml101"
    assert "GPU_KERNELS_START" not in spawner.get_env()


async def test_a_pod_asks_for_no_gpu_and_carries_the_course() -> None:
    spawner = made("gpu-kubernetes", group("ml101"))
    spawner.gpu_slice_course = "ml101"
    pod = (await spawner.get_pod_manifest()).to_dict()
    (container,) = pod["spec"]["containers"]
    assert {"name": "GPU_KERNELS_COURSE", "value": "ml101"}.items() <= next(
        entry for entry in container["env"] if entry["name"] == "GPU_KERNELS_COURSE"
    ).items()
    assert not any("gpu" in name for kind in container["resources"].values() for name in kind or ())


@pytest.mark.parametrize(
    ("course", "says"), [("ml101", "GPUs are charged to ml101."), ("", "This server will have no GPUs")]
)
async def test_the_page_that_waits_says_first_what_becomes_of_gpus(course: str, says: str) -> None:
    spawner = made("gpu-simple")
    spawner.gpu_slice_course = course
    first = await anext(aiter(spawner.progress()))
    assert first["message"].startswith(says)

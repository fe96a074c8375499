"""The page about Python: its examples, typed in as they stand against a real controller, and its names."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from traitlets.config import Config

import gpu_kernels.client
from gpu_kernels.client.api import Api, Method, ScriptMethod
from gpu_kernels.units import parse_thousandths, thousandths_text
from tests.cli.lab import COURSE, Lab, wait_until
from tests.docs.documents import ROOT

PAGE = (ROOT / "docs" / "reference" / "python-api.md").read_text()
EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shows>.*?)^```\n)?", re.M | re.S)
EXAMPLES = [(each["code"], each["shows"] or "") for each in EXAMPLE.finditer(PAGE)]
SHOWN = re.findall(r"^::: (\S+)$", PAGE, re.M)
TRAIN = 'import os\nprint("trained on", os.environ["GPU_KERNELS_SIZE"])\n'
AGENTS_OWN = {"register_agent", "report_agent", "Assignment", "AssignedLease", "AgentReport", "Registration"}
"""What agents say to the controller; nobody else speaks for a GPU server."""
VARIABLES = {"CONTROLLER_VARIABLE", "TOKEN_VARIABLES"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"), 60.0)
    yield made
    made.close()


def example(having: str) -> tuple[str, str]:
    """The one with these words."""
    (found,) = [each for each in EXAMPLES if having in each[0]]
    return found


def typed(lab: Lab, folder: Path, having: str, token: str = "ada-token") -> None:
    """Runs an example; it shows what the page says that it shows."""
    code, shows = example(having)
    (folder / "train.py").write_text(TRAIN)
    (folder / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"],
        cwd=folder,
        env=lab.env | {"GPU_KERNELS_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = re.escape(shows).replace("…", ".*")
    assert re.fullmatch(wanted, done.stdout), done.stdout
    wait_until(lambda: lab.leases() == [])


def test_a_program_runs_on_a_slice_that_is_reserved_for_a_block(lab: Lab, tmp_path: Path) -> None:
    typed(lab, tmp_path, "train.py")


def test_ones_leases_are_listed(lab: Lab, tmp_path: Path) -> None:
    typed(lab, tmp_path, "pool.list()")


def test_an_instructor_sets_a_courses_limit_and_what_is_beyond_it_is_refused_in_words(
    lab: Lab, tmp_path: Path
) -> None:
    lab.admin.set_limit(COURSE, {"V100": 100})
    typed(lab, tmp_path, "set_limit", token="iris-token")
    typed(lab, tmp_path, "except CourseLimit")
    lab.admin.set_limit(COURSE, {"V100": 100})


def test_a_slice_is_reserved_in_asyncio(lab: Lab, tmp_path: Path) -> None:
    typed(lab, tmp_path, "asyncio.run")


@pytest.mark.quick
def test_sizes_are_read_as_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    code, shows = example("parse_size(text)")
    exec(code, {})
    assert capsys.readouterr().out == shows
    assert parse_thousandths(thousandths_text(20, "V100")) == (20, "V100")


@pytest.mark.quick
def test_a_spawner_of_ones_own_takes_the_settings() -> None:
    code, _ = example("class Spawner")
    c = Config()
    exec(code, {"c": c, "__name__": "jupyterhub_config"})
    made = c.JupyterHub.spawner_class(config=c)
    assert made.gpu_slice_controller.endswith("/services/gpu")
    assert made.server_token_scopes


@pytest.mark.quick
def test_every_example_is_tried() -> None:
    tried = ("train.py", "pool.list()", "set_limit", "except CourseLimit", "asyncio.run")
    quick = ("parse_size(text)", "class Spawner")
    assert {example(words)[0] for words in (*tried, *quick)} == {code for code, _ in EXAMPLES}


@pytest.mark.quick
@pytest.mark.parametrize("name", SHOWN)
def test_every_name_of_the_page_is_there_and_says_what_it_is(name: str) -> None:
    if "docker" in name or "systemd" in name or "kubernetes" in name:
        pytest.skip("what it extends is another project's, and need not be here")
    thing = found(name)
    assert getattr(thing, "__doc__", None), f"{name} does not say what it is for"


@pytest.mark.quick
def test_every_public_name_of_the_client_is_on_the_page() -> None:
    calls = {name for name, each in vars(Api).items() if isinstance(each, (Method, ScriptMethod))}
    names = set(gpu_kernels.client.__all__) - VARIABLES
    wanted = {f"gpu_kernels.client.{name}" for name in names - AGENTS_OWN}
    wanted |= {f"gpu_kernels.client.PoolClient.{name}" for name in calls - AGENTS_OWN}
    assert wanted <= set(SHOWN)
    assert len(SHOWN) == len(set(SHOWN))


def found(name: str) -> object:
    """What the name stands for: of a module, or of a class in one."""
    module, _, rest = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest)
    except ModuleNotFoundError:
        owner, _, kind = module.rpartition(".")
        return vars_of(getattr(importlib.import_module(owner), kind))[rest]


def vars_of(kind: type) -> dict[str, object]:
    return {name: each for base in reversed(kind.__mro__) for name, each in vars(base).items()}

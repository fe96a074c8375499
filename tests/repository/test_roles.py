"""What each role's environment has: what its extra brings, out of what is locked here, and the wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.repository.installed import asked_for, brought, link
from tests.repository.test_repository import PYPROJECT, ROOT

pytestmark = pytest.mark.timeout(600)

CLIENT = ("client", "client.aio", "client.threads", "remoting.environment", "kernelspecs")
CONTROLLERS = {"alembic", "sqlalchemy", "pydantic", "prometheus_client"}
SERVERS = {"jupyterhub", "jupyter_server", "jupyterlab"}
ROLES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "kernel": (
        (
            *CLIENT, "cli.account", "cli.class_hours", "cli.course", "cli.status", "client.keeper",
            "kernel_ports", "magics.command", "magics.live", "provisioner", "smi.__main__", "specs",
        ),
        CONTROLLERS | SERVERS,
    ),
    "agent": (
        (*CLIENT, "cli.agents", "cli.check", "remoting.agent.app", "remoting.agent.worker"),
        CONTROLLERS | SERVERS | {"jupyter_client", "ipykernel", "IPython", "zmq"},
    ),
    "controller": (
        (
            *CLIENT, "cli.agents", "cli.tokens", "pool.app", "pool.replay", "pool.ledger.stores.schema",
            "pool.ledger.stores.sqlite", "pool.service.openapi",
        ),
        SERVERS | {"jupyter_client", "ipykernel", "IPython", "pynvml"},
    ),
    "hub": (
        (*CLIENT, "spawner", "spawner.budgets", "spawner.lti", "hub_config.pages.app"),
        {"ipykernel", "IPython", "jupyter_server", "jupyterlab", "pynvml"},
    ),
}  # fmt: skip
"""By role: what it runs of the package, and what it must not bring."""


@pytest.fixture(scope="module", params=sorted(ROLES))
def environment(request, wheel, tmp_path_factory):
    """A role, and the folder that is its site-packages."""
    site = tmp_path_factory.mktemp(request.param) / "lib" / "python3" / "site-packages"
    link(brought(asked_for(wheel, request.param)), site)
    wheel.extractall(site)
    return request.param, site


def run(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    """In a Python that has the standard library and the folder, and nothing else."""
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(site)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, cwd="/")


def test_a_roles_environment_runs_its_part(environment):
    role, site = environment
    done = run(site, "\n".join(f"import gpu_kernels.{module}" for module in ROLES[role][0]))
    assert done.returncode == 0, done.stderr


def test_the_command_line_is_whole_in_every_roles_environment(environment):
    _, site = environment
    done = run(site, "import gpu_kernels.cli as c; c.main(['--help'])")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["pool", "hub_config.pages", "remoting.agent"])
def test_a_module_that_is_run_without_its_extra_says_which_one_it_wants(environment, module):
    role, site = environment
    extra = {"pool": "controller", "hub_config.pages": "hub", "remoting.agent": "agent"}[module]
    has = {"pool": {"controller", "hub"}, "hub_config.pages": {"hub"}, "remoting.agent": {"agent", "kernel"}}
    if role in has[module]:
        pytest.skip("this role has what it runs with")
    done = run(site, f"import runpy; runpy.run_module('gpu_kernels.{module}', run_name='__main__')")
    assert done.returncode == 69, done.stderr
    assert done.stderr.endswith(f'/gpu_kernels-*.whl)[{extra}]"\n')


def test_a_roles_environment_has_nothing_of_other_roles(environment):
    role, site = environment
    code = "import importlib.util as u; print(*[n for n in {!r} if u.find_spec(n)])"
    done = run(site, code.format(sorted(ROLES[role][1])))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_a_service_without_its_extra_says_which_one_it_wants(environment):
    role, site = environment
    if CONTROLLERS - ROLES[role][1]:
        pytest.skip("this one has what a controller runs with; a hub keeps a database too")
    done = run(site, "import gpu_kernels.cli as c; c.main(['controller'])")
    assert done.returncode == 69
    assert done.stderr.endswith('/gpu_kernels-*.whl)[controller]"\n')
    assert done.stderr.count("\n") == 1


def test_the_lab_without_its_extra_says_which_one_it_wants(environment):
    _, site = environment
    done = run(site, "import gpu_kernels.cli as c; c.main(['lab', '--no-browser', '--state', '/nowhere'])")
    assert done.returncode == 69, done.stderr
    assert done.stderr.endswith('/gpu_kernels-*.whl)[lab]"\n')
    assert done.stderr.count("\n") == 1


def test_the_lab_has_every_roles_part_and_the_version_is_said_in_one_place(wheel):
    lab = Requirement(PYPROJECT["project"]["optional-dependencies"]["lab"][0])
    assert lab.extras == {*ROLES, "cuda"}, "the first notebook is numba's"
    import gpu_kernels

    assert "version" in PYPROJECT["project"]["dynamic"]
    assert Path(wheel.filename).name.startswith(f"gpu_kernels-{gpu_kernels.__version__}-")
    assert "version" not in (ROOT / "gpu_kernels/labextension/package.json").read_text()

"""A JupyterHub for one machine that gives every kernel its slice of a GPU; `jupyter gpu lab` runs it.

To make it your own, keep the parts "courses and rights" and "GPU slices", and replace the logins and the
spawner by those of your site: `class Spawner(GPULabMixin, YourSpawner)`.
"""

import asyncio
import gc
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy

from gpu_kernels.hub_config.lab import accounts, services
from gpu_kernels.hub_config.lab.authenticator import DemoAuthenticator
from gpu_kernels.hub_config.lab.log_rate import LOGGING
from gpu_kernels.hub_config.lab.settings import CONFIGURATION, NOTEBOOKS, Settings, proxy_command
from gpu_kernels.spawner.budgets import StartPageBudgets

c = get_config()  # type: ignore[name-defined]  # noqa: F821
lab = Settings.of_this_process()
lab.make_folders()

# --- addresses: everything on loopback ------------------------------------------------------------------

c.JupyterHub.bind_url = lab.url
c.JupyterHub.hub_bind_url = f"http://{lab.address}:{lab.hub_port}"
c.ConfigurableHTTPProxy.api_url = f"http://{lab.address}:{lab.proxy_api_port}"
c.ConfigurableHTTPProxy.command = services.dying_with_parent(proxy_command())
c.ConfigurableHTTPProxy.auth_token = accounts.token(lab.secrets, "proxy")
c.ConfigurableHTTPProxy.pid_file = str(lab.state / "proxy.pid")

# --- state ----------------------------------------------------------------------------------------------

c.JupyterHub.db_url = f"sqlite:///{lab.hub_database}"
c.JupyterHub.cookie_secret_file = str(lab.secrets / "hub-cookie")


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def commit_without_the_disk(connection: Any, record: Any) -> None:
    """Everybody waits while the hub commits, and each login and start of a server commits several times.

    The disk is asked to write at checkpoints only; a power cut may lose the last commits, and breaks nothing.
    """
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")


# --- the log: whoever sends wrong tokens leaves a line each time, here too -------------------------------

c.JupyterHub.logging_config = LOGGING

# --- logins: for a demo on loopback, and refused elsewhere ----------------------------------------------

c.JupyterHub.authenticator_class = DemoAuthenticator
c.DemoAuthenticator.passwords = {
    login.name: login.password for login in accounts.logins(lab.secrets).values()
}
c.DemoAuthenticator.admin_users = {accounts.ADMIN}

# --- courses and rights ---------------------------------------------------------------------------------

c.JupyterHub.load_groups = {group: {"users": list(users)} for group, users in accounts.GROUPS.items()}

c.JupyterHub.custom_scopes = {
    "custom:gpu:use": {"description": "Reserve slices of GPUs, and see and end one's own leases"},
    "custom:gpu:read:usage": {"description": "See who holds what of a course"},
    "custom:gpu:admin:quota": {
        "description": "Change the limit of a course",
        "subscopes": ["custom:gpu:read:usage"],
    },
    "custom:gpu:admin:pool": {
        "description": "See all leases and take them back",
        "subscopes": ["custom:gpu:read:usage"],
    },
    "custom:gpu:admin:*": {
        "description": "Administer the pool of GPUs and every course",
        "subscopes": ["custom:gpu:admin:quota", "custom:gpu:admin:pool"],
    },
}
c.JupyterHub.extra_user_scopes = {
    "custom:gpu:use!user",
    "access:services!service=gpu",
    f"access:services!service={services.PAGES_SERVICE}",
}
c.JupyterHub.load_roles = [
    {
        "name": f"gpu-{accounts.INSTRUCTORS}",
        "groups": [accounts.INSTRUCTORS],
        "scopes": [f"custom:gpu:admin:quota!group={accounts.COURSE}"],
    },
    {"name": "gpu-admins", "groups": [accounts.ADMINS], "scopes": ["custom:gpu:admin:*"]},
    {
        # Reads which courses there are, and the gpu_* properties of their groups.
        "name": "gpu-controller",
        "services": ["gpu"],
        "scopes": ["list:groups", "read:groups"],
    },
    {
        # Asks what servers hold of GPUs, for the hub's admin panel.
        "name": "gpu-panel",
        "services": [services.PANEL_SERVICE],
        "scopes": ["custom:gpu:read:usage", "access:services!service=gpu"],
    },
    {
        # Stops the students' servers before the services that they need, and reads that nothing is left.
        "name": "lab-runner",
        "services": [services.RUNNER_SERVICE],
        "scopes": [
            "list:users",
            "read:servers",
            "delete:servers",
            "custom:gpu:admin:*",
            "access:services!service=gpu",
        ],
    },
]

# --- GPU slices: the controller, and what servers need to reach it --------------------------------------

c.JupyterHub.services = [
    {
        "name": "gpu",
        "url": f"http://{lab.address}:{lab.controller_port}",
        "command": services.respawned(services.controller_command()),
        "environment": services.service_environment(lab),
        "cwd": str(lab.state),
        "display": False,
    },
    {
        # The pages act for whoever looks at them: of these scopes, they get what that person holds.
        "name": services.PAGES_SERVICE,
        "url": f"http://{lab.address}:{lab.pages_port}",
        "command": services.respawned(services.pages_command()),
        "environment": services.service_environment(lab),
        "cwd": str(lab.state),
        "display": True,
        "oauth_no_confirm": True,
        "oauth_client_allowed_scopes": [
            "access:services!service=gpu",
            "custom:gpu:use",
            "custom:gpu:admin:*",
        ],
    },
    {"name": services.PANEL_SERVICE, "api_token": accounts.token(lab.secrets, services.PANEL_SERVICE)},
    {"name": services.RUNNER_SERVICE, "api_token": accounts.token(lab.secrets, services.RUNNER_SERVICE)},
]

# The link to the lab pages in the hub's navigation, and one's GPU-hours on the pages that start a server.
c.JupyterHub.template_paths = [str(CONFIGURATION / "templates")]
c.JupyterHub.template_vars = {"gpu_budgets": StartPageBudgets(lab.controller_url)}

c.JupyterHub.spawner_class = "gpu-simple"
c.GPULabMixin.gpu_slice_controller = lab.controller_url
c.GPULabMixin.gpu_slice_panel_token = accounts.token(lab.secrets, services.PANEL_SERVICE)
c.GPULabMixin.gpu_slice_courses = list(accounts.COURSES)

# --- servers --------------------------------------------------------------------------------------------

c.Spawner.cmd = services.dying_with_parent(services.server_command(), yields=lab.servers_yield)
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
c.Spawner.default_url = "/lab"
c.Spawner.environment = services.server_environment(lab)
c.Spawner.start_timeout = 300  # a machine with two processors starts a class of a hundred
c.Spawner.http_timeout = 300
c.SimpleLocalProcessSpawner.home_dir_template = str(lab.homes / "{username}")


async def bring_notebooks(spawner: Any) -> None:
    """Puts the course's notebooks into the person's home; in a thread: the hub must not wait for the disk."""
    await asyncio.to_thread(put_notebooks, lab.homes / spawner.user.name)


def put_notebooks(home: Path) -> None:
    """Where theirs does not exist yet."""
    home.mkdir(exist_ok=True)
    for notebook in NOTEBOOKS.glob("*.ipynb"):
        if not (home / notebook.name).exists():
            shutil.copy(notebook, home)


c.Spawner.pre_spawn_hook = bring_notebooks


# --- the hub's process ----------------------------------------------------------------------------------

# All of JupyterHub is loaded by now, and stays. Python's garbage collector would go through it again whenever
# many servers start, and hold up everybody for a fifth of a second each time.
gc.collect()
gc.freeze()

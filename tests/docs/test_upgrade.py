"""docs/how-to/upgrade.md: the command that renames packages in a site's own files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.native_build import ROOT

BEFORE = """\
from spawner import GPULabMixin
    import hub_config.lab.log_rate
c.JupyterHub.spawner_class = "gpu-local"
c.JupyterHub.services = [{"command": ["python", "-m", "hub_config.pages"]}]
ExecStart=/usr/bin/python3 -m remoting.agent --name gpu1
from spawners_of_ours import spawner
command = ['python', '-m', 'hub_config.pages']
c.JupyterHub.spawner_class = "spawner.systemd.GPUSystemdSpawner"
\tfrom remoting.paths import native_build
import spawner.lti
c.Authenticator.post_auth_hook = spawner.lti.joins("ml101")
import kernelspecs
"""
AFTER = """\
from gpu_kernels.spawner import GPULabMixin
    import gpu_kernels.hub_config.lab.log_rate
c.JupyterHub.spawner_class = "gpu-local"
c.JupyterHub.services = [{"command": ["python", "-m", "gpu_kernels.hub_config.pages"]}]
ExecStart=/usr/bin/python3 -m gpu_kernels.remoting.agent --name gpu1
from spawners_of_ours import spawner
command = ['python', '-m', 'gpu_kernels.hub_config.pages']
c.JupyterHub.spawner_class = "gpu_kernels.spawner.systemd.GPUSystemdSpawner"
\tfrom gpu_kernels.remoting.paths import native_build
from gpu_kernels.spawner import lti
c.Authenticator.post_auth_hook = lti.joins("ml101")
import gpu_kernels.kernelspecs
"""


def test_its_command_renames_packages_in_a_sites_files_and_can_be_run_again(tmp_path: Path) -> None:
    (command,) = [
        line for line in (ROOT / "docs/how-to/upgrade.md").read_text().splitlines() if line.startswith("sed ")
    ]
    files = ("jupyterhub_config.py", "gpu-agent.service")
    for name in files:
        (tmp_path / name).write_text(BEFORE)
    for _ in range(2):
        subprocess.run(command, shell=True, check=True, cwd=tmp_path)
        assert {(tmp_path / name).read_text() for name in files} == {AFTER}

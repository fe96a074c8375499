"""The agent under systemd with a delegated cgroup v2, in a machine of its own: QEMU's, in software.

Needs ``qemu-system-x86_64``, and a folder named by GPU_KERNELS_GUEST with Debian's ``vmlinuz`` and a ``root``
folder that has systemd, Python 3.11 and what the agent imports::

    mmdebstrap --include=systemd-sysv,dbus,python3,libstdc++6 bookworm root
    pip install --target root/opt/site --requirement requirements/all.txt
    apt-get download linux-image-cloud-amd64 && dpkg-deb -x linux-image-*.deb . && mv boot/vmlinuz-* vmlinuz

The image is the initial RAM disk itself, so the guest needs no disk. It takes minutes, and a GiB of memory.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.native_build import ROOT
from tests.qemu import archive

GUEST = os.environ.get("GPU_KERNELS_GUEST", "")
QEMU = shutil.which("qemu-system-x86_64")
PACKAGES = ("gpu_kernels", "tests")
LEFT_OUT = shutil.ignore_patterns("native", "labextension", "node_modules", "__pycache__", "corpus", "*.so*")
WITHIN_S = 900

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(WITHIN_S + 100),
    pytest.mark.skipif(QEMU is None, reason="no qemu-system-x86_64 here"),
    pytest.mark.skipif(not GUEST, reason="GPU_KERNELS_GUEST names no folder with a kernel and a root"),
]
AGENT = """
[Service]
Environment=GPU_KERNELS_CONTROLLER=http://127.0.0.1:8250 GPU_KERNELS_TOKEN=token
Environment=PYTHONPATH=/opt/site:/opt/gpu-kernels
WorkingDirectory=/opt/gpu-kernels
ExecStart=/usr/bin/python3 -m gpu_kernels.remoting.agent --name guest --state-dir /var/lib/gpu-agent \\
  --device software --software-memory-mib 64 --worker-memory-mib 64 --AgentApp.worker=/opt/worker --listen tcp://127.0.0.1:9960
StateDirectory=gpu-agent
Delegate=memory pids
OOMScoreAdjust=-900
Restart=always
RestartSec=1
"""
ATTACKS = """
[Service]
Environment=PYTHONPATH=/opt/site:/opt/gpu-kernels HOME=/root
WorkingDirectory=/opt/gpu-kernels
ExecStart=/usr/bin/python3 -m tests.qemu.in_guest
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
"""


def image(folder: Path) -> Path:
    """The guest's RAM disk: its root, this repository, and two units."""
    added = folder / "added"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, added / "opt/gpu-kernels" / package, ignore=LEFT_OUT)
    shutil.copy(ROOT / "tests/attacks/reaching_worker.py", added / "opt/program.py")
    (added / "opt/worker").write_text('#!/bin/sh\nexec /usr/bin/python3 -I /opt/program.py "$@"\n')
    (added / "opt/worker").chmod(0o755)
    units = added / "etc/systemd/system"
    (units / "multi-user.target.wants").mkdir(parents=True)
    (units / "gpu-agent.service").write_text(AGENT)
    (units / "attacks.service").write_text(ATTACKS)
    (units / "multi-user.target.wants/attacks.service").symlink_to("../attacks.service")
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    disk = folder / "disk"
    with disk.open("wb") as file:
        archive.add(file, "dev", 0o040755)
        archive.add(file, "dev/console", 0o020600, device=(5, 1))
        archive.write(file, Path(GUEST) / "root")
        archive.write(file, added)
        archive.add(file, "init", 0o120777, b"lib/systemd/systemd")
        archive.finish(file)
    return disk


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the guest told of each thing that it looked at."""
    folder = tmp_path_factory.mktemp("guest")
    command = [
        str(QEMU),
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-smp",
        "1",
        "-m",
        "4096",
        "-nographic",
        "-no-reboot",
    ]
    command += ["-kernel", f"{GUEST}/vmlinuz", "-initrd", str(image(folder)), "-nic", "none"]
    command += [
        "-append",
        "console=ttyS0 quiet systemd.unified_cgroup_hierarchy=1 systemd.show_status=0 panic=-1",
    ]
    with (folder / "console").open("wb") as console:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=console, timeout=WITHIN_S, check=False)
    text = (folder / "console").read_text(errors="replace")
    lines = [line.partition("RESULT ")[2] for line in text.splitlines() if "RESULT " in line]
    results = {each["name"]: each["value"] for each in map(json.loads, lines)}
    assert "error" not in results, text[-8000:]
    assert results, text[-8000:]
    return results


def test_each_worker_has_a_cgroup_with_bounds(told: dict[str, object]) -> None:
    assert told["systemd started the agent"]
    assert told["what it started is in its cgroup"]
    assert told["memory.max"] == 64 + 64 + 2048
    assert told["pids.max"] == 8192


def test_the_end_of_a_lease_is_told_when_nothing_of_its_worker_lives(told: dict[str, object]) -> None:
    assert told["what it started lives when its end is told"] is False
    assert told["its cgroup is gone"]


def test_a_worker_that_takes_more_than_its_cgroup_has_is_killed_alone(told: dict[str, object]) -> None:
    assert told["one that takes more than memory.max is killed, the agent lives"]


def test_nothing_of_a_killed_agents_workers_lives_when_the_next_one_registers(
    told: dict[str, object],
) -> None:
    assert told["what it started lives when the next agent registers"] is False


def test_check_says_that_all_of_it_is_in_force(told: dict[str, object]) -> None:
    check = told["check"]
    assert isinstance(check, dict)
    for name in ("account", "system calls", "cgroup", "end of memory"):
        assert check[name][0], check[name]

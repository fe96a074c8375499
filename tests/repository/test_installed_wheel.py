"""The wheel with its native code, as `make wheel` makes it, in an environment that knows no checkout.
A kernel that Jupyter starts there computes on a slice, by the installed driver, agent and worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import tempfile
import zipfile
from pathlib import Path

import psutil
import pytest

from gpu_kernels.hub_config.lab.kernel_channel import CellResult
from gpu_kernels.hub_config.lab.processes import marked
from gpu_kernels.hub_config.lab.student_path import SPEC
from gpu_kernels.kernelspecs import spec_name
from gpu_kernels.remoting.paths import native_build
from tests.cli.lab import COURSE, Lab, outside_environment, wait_until
from tests.hub.test_up import Up, ports_in_a_row
from tests.native_build import alone
from tests.repository.installed import Environment
from tests.repository.test_repository import ROOT

pytestmark = [pytest.mark.native, pytest.mark.slow, pytest.mark.timeout(900)]

SIZE = "0.02 V100"
NATIVE = "gpu_kernels/remoting/lib/"
IN_THE_KERNEL = """
import json, sys, gpu_kernels
from gpu_kernels.cli.vector_add import Driver, add_vectors
told = {"device": add_vectors(Driver()), "path": sys.path, "package": gpu_kernels.__file__}
told["mapped"] = sorted({line.split()[-1] for line in open("/proc/self/maps") if "/libcu" in line})
print(json.dumps(told))
"""
STARTS_A_KERNEL = """
import glob, json, os, sys
from jupyter_client.manager import KernelManager
from gpu_kernels.client import PoolClient

pool = PoolClient(os.environ["GPU_KERNELS_CONTROLLER"], os.environ["GPU_KERNELS_TOKEN"])
manager, said = KernelManager(kernel_name=sys.argv[1]), []
manager.start_kernel()
try:
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=100)
    hook = lambda message: said.append(message["content"])
    ended = client.execute_interactive(sys.argv[2], timeout=100, store_history=False, output_hook=hook)
    held = [[lease.course, lease.thousandths] for lease in pool.list() if lease.in_force]
    programs = {os.readlink(path) for path in glob.glob("/proc/[0-9]*/exe") if os.access(path, os.R_OK)}
    workers = sorted(path for path in programs if path.endswith("gpu-worker") and path.startswith(sys.prefix))
    client.stop_channels()
finally:
    manager.shutdown_kernel()
    pool.close()
print(json.dumps({
    "status": ended["content"]["status"], "held": held, "workers": workers,
    "said": "".join(content.get("text") or content.get("evalue") or "" for content in said),
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    with alone(ROOT / "build/native"):
        command = ["make", "--no-print-directory", "wheel", f"WHEELS={folder}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def environment(wheel):
    """In a folder that everybody may read: a worker has an account of its own where the agent is root."""
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-installed-") as folder:
        Path(folder).chmod(0o755)
        yield Environment(Path(folder) / "venv", wheel, "kernel", "agent", "controller")


def test_its_tag_names_a_glibc_that_its_libraries_are_content_with(wheel):
    named = re.fullmatch(r"gpu_kernels-[\d.]+-py3-none-manylinux_2_(\d+)_x86_64\.whl", wheel.name)
    assert named is not None
    assert int(named[1]) <= int(platform.libc_ver()[1].split(".")[1])
    with zipfile.ZipFile(wheel) as archive:
        (described,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert f"Tag: py3-none-manylinux_2_{named[1]}_x86_64\n" in archive.read(described).decode()


def test_it_has_the_whole_native_build_and_no_library_beside_it(wheel):
    build = native_build()
    with zipfile.ZipFile(wheel) as archive:
        natives = {
            info.filename: info.external_attr >> 16
            for info in archive.infolist()
            if archive.read(info)[:4] == b"\x7fELF" or info.filename.startswith(NATIVE)
        }
    files = {name for name in natives if not name.endswith(("/", "-LICENSE.txt"))}
    assert files == {NATIVE + str(path.relative_to(build.folder)) for path in build.all_files()}
    for program in (build.worker, build.ptxas, build.nvcc):
        assert natives[NATIVE + str(program.relative_to(build.folder))] & 0o111 == 0o111


def test_it_has_nothing_of_tests_and_benchmarks(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folders = {part for name in names for part in Path(name).parts[:-1]}
    assert not folders & {"tests", "benchmarks", "fuzz", "fuzzing", "corpus", ".venv"}
    for_tests = ("test_", "conftest", "fuzz_", "bench")
    assert [name for name in names if Path(name).name.startswith(for_tests)] == []


def test_a_kernel_of_an_installed_wheel_computes_on_a_slice_that_comes_back(environment, tmp_path):
    environment.pip("check")
    spec = ["kernelspec", "install", "--sys-prefix", f"--size={SIZE}", "--no-plain"]
    lab = Lab(tmp_path / "lab", lease_ttl=20.0, worker="gpu-worker", python=environment.python)
    try:
        env = {name: text for name, text in lab.env.items() if not name.startswith(("PYTHON", "JUPYTER"))}
        env |= {"GPU_KERNELS_COURSE": COURSE, "HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
        subprocess.run([environment.command, *spec], env=env, cwd=tmp_path, check=True, capture_output=True)
        program = [environment.python, "-I", "-c", STARTS_A_KERNEL, spec_name(SIZE), IN_THE_KERNEL]
        done = subprocess.run(program, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr + (lab.folder / "log").read_text()
        wait_until(lab.nothing_in_use)
    finally:
        lab.close()
    seen = json.loads(done.stdout)
    assert (seen["status"], seen["held"]) == ("ok", [[COURSE, 20]]), seen["said"]
    told, native = json.loads(seen["said"]), environment.site / NATIVE
    assert "655 MiB" in told["device"]
    assert told["package"] == str(environment.site / "gpu_kernels/__init__.py")
    assert [path for path in told["path"] if Path(path).is_relative_to(ROOT)] == []
    assert str(native / "client/libcuda.so.1") in told["mapped"]
    assert all(Path(path).is_relative_to(native) for path in told["mapped"])
    assert seen["workers"] == [str(native / "bin/gpu-worker")]


def test_an_installed_software_gpu_serves_a_program_without_a_pool(environment, tmp_path):
    program = [environment.command, "check", "--software"]
    done = subprocess.run(program, env=outside_environment(), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert os.fspath(environment.folder) in done.stdout


@pytest.fixture(scope="module")
def lab_environment(wheel):
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-lab-") as folder:
        Path(folder).chmod(0o755)
        yield Environment(Path(folder) / "venv", wheel, "lab")


def test_the_installed_lab_serves_a_student_leaves_nothing_and_finds_its_state(lab_environment, tmp_path):
    """``jupyter gpu lab``: hub, proxy, controller, agent, server and kernel out of the wheel alone."""
    lab_environment.pip("check")
    state, port = tmp_path / "state", ports_in_a_row()
    there = {"command": [lab_environment.command], "cwd": tmp_path}
    with Up(state, port, "--memory=16384 MiB", **there) as up:
        up.wait_until_it_says("Ctrl-C stops everything")
        with up.login("iris") as iris:
            iris.log_in()
            with iris.pool_client(up.settings.controller_url) as pool:
                pool.set_limit(COURSE, {up.settings.gpu_class: 77})
        result = computed_by_a_student(up)
        running = programs(up)
        up.popen.send_signal(signal.SIGINT)
        assert up.finish() == 0, up.output
    assert "no process, no port and no lease is left" in up.output
    assert marked(up.settings.marker) == []
    up.settings.check_ports_free()
    assert (up.settings.homes / "ana" / "first_steps.ipynb").exists()
    assert result.error is None, result
    told = json.loads(result.text)
    assert "327 MiB" in told["device"]
    assert told["package"] == str(lab_environment.site / "gpu_kernels/__init__.py")
    assert str(lab_environment.site / NATIVE / "bin/gpu-worker") in running

    with Up(state, port, **there) as again:
        again.wait_until_it_says("Ctrl-C stops everything")
        with again.login("iris") as iris:
            iris.log_in()
            with iris.pool_client(again.settings.controller_url) as pool:
                course = pool.course(COURSE)
                held = pool.list(COURSE)
        again.popen.send_signal(signal.SIGTERM)
        assert again.finish() == 0, again.output
    assert course.limits == {again.settings.gpu_class: 77}
    assert [lease for lease in held if lease.in_force] == []


def programs(up: Up) -> set[str]:
    """What the lab's processes run, of those that do not end meanwhile."""
    found = set()
    for process in marked(up.settings.marker):
        with contextlib.suppress(psutil.Error):
            found.add(process.exe())
    return found


def computed_by_a_student(up: Up) -> CellResult:
    with up.login("ana") as ana:
        ana.log_in()
        ana.start_server()
        ana.open_lab()
        session = ana.start_kernel(SPEC, "first.ipynb")
        with ana.channel(session["kernel"]["id"]) as channel:
            return channel.execute(IN_THE_KERNEL)

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpu_kernels.remoting.environment import (
    COMMANDS,
    LEASE_VARIABLES,
    STARTUP,
    TRITON_PTXAS,
    NoEnvironment,
    attachable_environment,
    client_environment,
    lease_variables,
    software_environment,
    without_gpu,
)
from gpu_kernels.remoting.paths import native_build
from gpu_kernels.remoting.startup.gpu_kernels_frameworks import CUDA_ROOT, put
from tests.agent.leases import lease

NATIVE = native_build({})

paths = st.lists(st.sampled_from(["/usr/lib", "/opt/a b", "", "lib", "$ORIGIN/x"]), max_size=4).map(":".join)
preloads = st.lists(st.sampled_from(["/usr/lib/libjemalloc.so", "libc.so", ""]), max_size=3)
environments = st.fixed_dictionaries(
    {},
    optional={
        "LD_LIBRARY_PATH": paths,
        "LD_PRELOAD": st.one_of(preloads.map(":".join), preloads.map(" ".join)),
        "PATH": st.just("/usr/bin"),
        "PYTHONPATH": st.sampled_from(["/home/me/lib", "lib:/opt/a b", ""]),
        "GPU_KERNELS_CONTROLLER": st.just("http://127.0.0.1:1"),
        "GPU_KERNELS_TOKEN": st.just("t"),
        "GPU_KERNELS_LOG": st.just("stderr"),
    },
)
leases = st.sampled_from([lease(), lease("lease-b", epoch=7), lease("lease-c", device="nvidia")])


def same_for_the_loader(env: dict[str, str]) -> dict[str, str]:
    """An empty list of libraries or folders is no list."""
    lists = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
    return {name: value for name, value in env.items() if not (name in lists and value == "")}


@given(environments, leases)
def test_taking_the_gpu_away_gives_the_environment_that_was_there(base, held):
    env = without_gpu(client_environment(held, base))
    env.pop("GPU_KERNELS_COURSE")
    assert same_for_the_loader(env) == same_for_the_loader(base)


@given(environments, leases, leases)
def test_the_last_lease_counts_alone(base, outer, inner):
    nested = client_environment(inner, client_environment(outer, base))
    assert same_for_the_loader(nested) == same_for_the_loader(client_environment(inner, base))


@given(environments, leases)
def test_a_software_gpu_inside_a_lease_is_like_one_outside(base, outer):
    nested = software_environment(client_environment(outer, base), memory_mib=64)
    nested.pop("GPU_KERNELS_COURSE")
    assert nested == software_environment(base, memory_mib=64)


@given(environments)
def test_the_users_own_entries_stay_in_their_order(base):
    env = client_environment(lease(), base)
    theirs = f":{base['LD_LIBRARY_PATH']}" if base.get("LD_LIBRARY_PATH") else ""
    assert env["LD_LIBRARY_PATH"] == f"{NATIVE.client}:{NATIVE.libraries}{theirs}"
    if base.get("LD_PRELOAD"):
        assert env["LD_PRELOAD"].endswith(":" + base["LD_PRELOAD"])


def test_no_list_of_libraries_names_the_current_folder_by_accident():
    env = client_environment(lease(), {"LD_LIBRARY_PATH": "", "LD_PRELOAD": ""})
    assert "" not in env["LD_LIBRARY_PATH"].split(":")
    assert "LD_LIBRARY_PATH" not in without_gpu(env)


def test_a_lease_is_told_as_the_design_says():
    env = client_environment(lease(), {})
    assert env == {
        "GPU_KERNELS_AGENT": "tcp://127.0.0.1:7000",
        "GPU_KERNELS_LEASE": "lease-a",
        "GPU_KERNELS_EPOCH": "1",
        "GPU_KERNELS_SECRET": "ab" * 32,
        "GPU_KERNELS_SIZE": "0.02 V100",
        "GPU_KERNELS_COURSE": "ml101",
        "GPU_KERNELS_DEVICE": "software",
        "LD_LIBRARY_PATH": f"{NATIVE.client}:{NATIVE.libraries}",
        "LD_PRELOAD": ":".join(map(str, NATIVE.client_runtimes + NATIVE.compiler_stand_ins)),
        "TRITON_PTXAS_PATH": str(NATIVE.ptxas),
        "TRITON_PTXAS_BLACKWELL_PATH": str(NATIVE.ptxas),
        "GPU_KERNELS_CUDA_ROOT": str(NATIVE.cuda_root),
        "GPU_KERNELS_LIBRARIES": str(NATIVE.libraries),
        "PYTHONPATH": str(STARTUP),
        "GPU_KERNELS_PYTHON": sys.executable,
    }


@given(environments, leases)
def test_a_process_that_may_ask_has_what_one_with_the_lease_has_and_where_to_ask(base, held):
    env = attachable_environment("unix:///a", held, base)
    assert env == client_environment(held, base) | {"GPU_KERNELS_ATTACH": "unix:///a"}
    assert {name: env[name] for name in lease_variables(held)} == lease_variables(held)
    assert "GPU_KERNELS_ATTACH" not in client_environment(held, env)


@given(environments, st.booleans())
def test_a_process_that_waits_for_its_slice_has_all_but_the_lease(base, software):
    held = lease(device="software" if software else "nvidia")
    env = attachable_environment("unix:///a", None, client_environment(held, base), software=software)
    with_lease = attachable_environment("unix:///a", held, base)
    assert env == {name: value for name, value in with_lease.items() if name not in LEASE_VARIABLES}
    assert same_for_the_loader(without_gpu(env)) == same_for_the_loader(
        {**base, "GPU_KERNELS_COURSE": held.course}
    )


def test_our_nvidia_smi_goes_before_the_machines_where_there_is_a_path():
    assert client_environment(lease(), {"PATH": "/usr/bin"})["PATH"] == f"{COMMANDS}:/usr/bin"
    assert os.access(COMMANDS / "nvidia-smi", os.X_OK)


def test_our_nvidia_smi_is_there_on_a_software_gpu_too():
    assert software_environment({"PATH": "/usr/bin"})["PATH"] == f"{COMMANDS}:/usr/bin"


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    for file in ("bin/nvcc", "include/cuda.h"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch(0o755)
    return tmp_path


def test_on_a_software_gpu_ours_goes_before_an_nvcc_that_is_there(toolkit: Path):
    base = {"PATH": f"/usr/bin:{toolkit}/bin"}
    for env in (software_environment(base), client_environment(lease(), base)):
        assert env["PATH"] == f"{NATIVE.nvcc.parent}:{COMMANDS}:/usr/bin:{toolkit}/bin"
        assert env["CUDA_HOME"] == str(toolkit)
        assert client_environment(lease(), env) == client_environment(lease(), base)
        back = without_gpu(env)
        assert (back["PATH"], "CUDA_HOME" in back) == (base["PATH"], False)
    real = client_environment(lease(device="nvidia"), software_environment(base))
    assert real == client_environment(lease(device="nvidia"), base)
    assert real["PATH"] == f"{COMMANDS}:{base['PATH']}"


def test_the_users_own_toolkit_stays(toolkit: Path):
    base = {"PATH": f"{toolkit}/bin", "CUDA_HOME": "/opt/cuda"}
    env = software_environment(base)
    assert env["CUDA_HOME"] == "/opt/cuda"
    assert without_gpu(env)["CUDA_HOME"] == "/opt/cuda"
    assert "CUDA_HOME" not in software_environment({"PATH": f"{toolkit}/bin", "CUDA_PATH": "/opt/cuda"})
    changed = software_environment({"PATH": f"{toolkit}/bin"}) | {"CUDA_HOME": "/opt/other"}
    assert without_gpu(changed)["CUDA_HOME"] == "/opt/other"


def test_the_machines_own_choice_of_gpus_is_not_the_leases():
    base = {"CUDA_VISIBLE_DEVICES": ""}
    assert "CUDA_VISIBLE_DEVICES" not in client_environment(lease(), base)
    assert "CUDA_VISIBLE_DEVICES" not in software_environment(base)
    assert without_gpu(base) == base


def test_a_real_gpu_gets_no_stand_ins():
    env = client_environment(lease(device="nvidia"), {})
    assert env["LD_PRELOAD"] == ":".join(map(str, NATIVE.client_runtimes))
    assert not {*TRITON_PTXAS, CUDA_ROOT} & set(env)


def test_what_a_framework_was_given_under_one_lease_is_not_for_the_next():
    env = client_environment(lease(), {"XLA_FLAGS": "--mine"})
    put(env, {})
    env["CUDA_ROOT"] = "/home/me/cuda"  # the user's, since
    assert without_gpu(env) == {
        "XLA_FLAGS": "--mine",
        "CUDA_ROOT": "/home/me/cuda",
        "GPU_KERNELS_COURSE": "ml101",
    }


def test_the_users_own_assembler_is_for_real_gpus():
    base = {"TRITON_PTXAS_PATH": "/usr/local/cuda/bin/ptxas"}
    assert client_environment(lease(device="nvidia"), base)["TRITON_PTXAS_PATH"] == base["TRITON_PTXAS_PATH"]
    assert client_environment(lease(), base)["TRITON_PTXAS_PATH"] == str(NATIVE.ptxas)


def test_a_runtime_goes_with_its_driver():
    env = software_environment(client_environment(lease(), {}))
    assert env["LD_PRELOAD"] == ":".join(map(str, NATIVE.softgpu_runtimes + NATIVE.compiler_stand_ins))


def test_the_software_gpus_settings_are_told_where_given():
    env = software_environment({"GPU_KERNELS_SOFTGPU_THREADS": "3"}, memory_mib=64, name="Toy")
    assert env["GPU_KERNELS_SOFTGPU_MEMORY_MIB"] == "64"
    assert env["GPU_KERNELS_SOFTGPU_NAME"] == "Toy"
    assert env["GPU_KERNELS_SOFTGPU_THREADS"] == "3"
    assert env["LD_LIBRARY_PATH"] == f"{NATIVE.softgpu}:{NATIVE.libraries}"
    assert not set(env) & (set(LEASE_VARIABLES) - {"GPU_KERNELS_DEVICE"})


@pytest.mark.parametrize("lack", ["agent", "secret"])
def test_a_lease_that_is_not_in_force_gives_no_environment(lack):
    ended = replace(lease(), state="released", **{lack: None})
    with pytest.raises(NoEnvironment, match="lease-a is released"):
        client_environment(ended, {})


def test_a_native_build_elsewhere_is_used():
    env = client_environment(lease(), {"GPU_KERNELS_NATIVE": "/opt/gpu"})
    assert env["LD_LIBRARY_PATH"] == "/opt/gpu/client:/opt/gpu/libraries"


def test_a_folder_that_the_loader_cannot_read_is_refused():
    with pytest.raises(NoEnvironment, match="space"):
        client_environment(lease(), {"GPU_KERNELS_NATIVE": str(Path("/opt/my gpu"))})

"""libnvidia-ml.so.1 through the real nvidia-ml-py, against a real agent and against worse."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import struct
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpu_kernels.remoting.environment import client_environment
from gpu_kernels.remoting.paths import native_build
from tests.agent import leases
from tests.agent.fake_controller import Granted
from tests.agent.lanes import lane

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(
        not (native_build().client / "libnvidia-ml.so.1").exists(), reason="libnvidia-ml.so.1 is not built"
    ),
]
MIB = 1024 * 1024


def environment(address: str, lease: Granted) -> dict[str, str]:
    held = leases.lease(
        lease.id, epoch=lease.epoch, address=address, secret=lease.secret.hex(), device="nvidia"
    )
    return client_environment(held, {"PATH": "/usr/bin:/bin"})


async def start(what: str, env: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).parent / "nvml_user.py"), what),
        env=env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def ask(what: str, env: dict[str, str]) -> dict[str, Any]:
    process = await start(what, env)
    async with asyncio.timeout(100):
        out, err = await process.communicate()
    assert process.returncode == 0, (process.returncode, err.decode())
    return json.loads(out)


@pytest.fixture
async def lease(controller, agent):
    granted = await controller.grant("lease-a")
    await controller.carried_out()
    return granted


async def test_the_slice_is_the_device(agent, lease, inventory):
    async with lane(agent.address, lease) as open_lane:
        await open_lane.say('usage {"used_mib": 55, "peak_mib": 60, "sessions": 1, "launches": 3}')
        await open_lane.ask("echo said")
        facts = await ask("device", environment(agent.address, lease))
    assert facts["count"] == 1
    assert facts["name"] == "V100 (software GPU)"
    assert facts["uuid"] == inventory.gpus[0].uuid
    assert facts["memory"] == [655 * MIB, 55 * MIB, 600 * MIB]
    assert facts["memory2"] == [655 * MIB, 55 * MIB, 600 * MIB, 0]
    assert facts["capability"] == [7, 5]
    assert facts["pci"] == ["00000000:00:00.0", "0000:00:00.0", 0]
    assert facts["driver"] == "0.1.0"
    assert facts["cuda"] >= 13000
    assert facts["compute"] == []  # it has no session
    assert facts["graphics"] == []
    assert (facts["index"], facts["by_uuid"], facts["by_bus"], facts["by_uuidv"]) == (0, 0, 0, 0)
    assert facts["absent_index"] == "NVMLError_InvalidArgument"
    assert facts["absent_uuid"] == "NVMLError_NotFound"
    for unknown in ("temperature", "power", "fan", "clock"):
        assert facts[unknown] == "NVMLError_NotSupported"
    assert "restart the kernel" in facts["error"]
    assert facts["after_shutdown"] == "NVMLError_Uninitialized"


async def test_no_name_that_nvidia_ml_py_knows_ends_the_process(agent, lease):
    facts = await ask("every_name", environment(agent.address, lease))
    assert facts["names"] > 300
    assert facts["missing"] == 0


async def test_a_forked_child_may_ask_too(agent, lease):
    assert await ask("after_fork", environment(agent.address, lease)) == {"child_counts": 1}


async def test_a_process_without_a_lease_has_no_driver(agent, lease):
    env = {"PATH": "/usr/bin", "LD_LIBRARY_PATH": str(native_build().client)}
    assert (await ask("first_call", env))["init"] == "NVMLError_DriverNotLoaded"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GPU_KERNELS_SECRET", "ab"),
        ("GPU_KERNELS_SECRET", "zz" * 32),
        ("GPU_KERNELS_EPOCH", "-1"),
        ("GPU_KERNELS_EPOCH", "1" * 30),
        ("GPU_KERNELS_LEASE", "x" * 41),
        ("GPU_KERNELS_LEASE", "a b"),
        ("GPU_KERNELS_AGENT", "tcp://127.0.0.1"),
        ("GPU_KERNELS_AGENT", "tcp://127.0.0.1:99999"),
        ("GPU_KERNELS_AGENT", "tcp://::1:7000"),
        ("GPU_KERNELS_AGENT", "tcp://[127.0.0.1]:7000"),
        ("GPU_KERNELS_AGENT", "udp://127.0.0.1:7000"),
        ("GPU_KERNELS_AGENT", "unix://relative"),
        ("GPU_KERNELS_AGENT", "unix:///" + "x" * 200),
        ("GPU_KERNELS_AGENT", ""),
    ],
)
async def test_a_damaged_environment_is_told_in_the_log(agent, lease, variable, value):
    env = environment(agent.address, lease) | {variable: value, "GPU_KERNELS_LOG": "stderr"}
    process = await start("first_call", env)
    async with asyncio.timeout(100):
        out, err = await process.communicate()
    assert json.loads(out)["init"] == "NVMLError_DriverNotLoaded"
    assert variable in err.decode()
    assert lease.secret.hex() not in err.decode()


@pytest.mark.parametrize("listen", ["unix", "tcp://[::1]:0", "tcp://localhost:0"])
async def test_every_form_of_address_is_understood(controller, serve, settings, tmp_path, listen):
    address = f"unix://{tmp_path}/data.sock" if listen == "unix" else listen
    async with serve(dataclasses.replace(settings, listen=(address,))) as agent:
        lease = await controller.grant("lease-a")
        assert (await ask("first_call", environment(agent.address, lease)))["count"] == 1


async def test_a_wrong_secret_has_no_gpu(agent, lease):
    env = environment(agent.address, Granted(lease.id, lease.epoch, bytes(32)))
    assert (await ask("first_call", env))["init"] == "NVMLError_GpuIsLost"


async def test_a_lease_that_ends_is_a_lost_gpu_and_the_process_lives(controller, agent, lease):
    process = await start("one_call_a_line", environment(agent.address, lease))

    async def name() -> str:
        process.stdin.write(b"\n")
        return (await process.stdout.readline()).decode().strip()

    assert await name() == "V100 (software GPU)"
    await controller.end("lease-a")
    await controller.carried_out()
    async with asyncio.timeout(100):
        while await name() != "NVMLError_GpuIsLost":  # an answer is remembered for a moment
            pass
        await process.communicate(b"")
    assert process.returncode == 0


@contextlib.asynccontextmanager
async def server_that_answers(data: bytes | None) -> AsyncIterator[str]:
    """A server that answers each Hello with these bytes and closes; with None it says nothing at all."""
    silent = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readexactly(128)
            if data is None:
                await silent.wait()
            else:
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        silent.set()
        server.close()


def ok(text: bytes) -> bytes:
    return struct.pack("<II", 0, len(text)) + text


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "NVMLError_Timeout"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "NVMLError_Timeout"),
        (struct.pack("<II", 0, 0xFFFFFFFF) + b"x" * 100, "NVMLError_Timeout"),
        (struct.pack("<II", 0, 4097) + b"x" * 4097, "NVMLError_Timeout"),
        (struct.pack("<II", 0, 100) + b"[", "NVMLError_Timeout"),
        (struct.pack("<II", 99, 0), "NVMLError_Timeout"),
        (struct.pack("<II", 8, 3) + b"bus", "NVMLError_Timeout"),
        (struct.pack("<II", 6, 5) + b"ended", "NVMLError_GpuIsLost"),
        (ok(b""), "NVMLError_Unknown"),
        (ok(b"{}"), "NVMLError_Unknown"),
        (ok(b"[{]"), "NVMLError_Unknown"),
        (ok(b'[{"name": "\\u00"}]'), "NVMLError_Unknown"),
        (ok(b"[" * 4096), "NVMLError_Unknown"),
        (ok(b'[{"x":' + b"[" * 4000), "NVMLError_Unknown"),
        (ok(b"[" + b"{}," * 80 + b"{}]"), "NVMLError_Unknown"),
        (ok(b'[{"total_mib": 1e400}]'), "NVMLError_Unknown"),
        (ok(b'[{"name": "\\ud83d"}]'), "NVMLError_Unknown"),
    ],
)
async def test_an_agent_that_answers_nonsense_is_an_error_and_no_crash(data, error):
    async with server_that_answers(data) as address:
        facts = await ask("first_call", environment(address, Granted("lease-a", 1, bytes(32))))
    assert facts["init"] == error


@pytest.mark.parametrize(
    "text",
    [
        b"[{}]",
        b'[{"name": 3, "total_mib": "many", "utilisation": null, "uuid": ["x", {"y": true}]}]',
        b'[{"total_mib": -1, "used_mib": 1e18, "utilisation": 1e9, "name": "\\u00e9\\ud83d\\ude00\\n"}]',
    ],
)
async def test_odd_values_are_bounded(text):
    async with server_that_answers(ok(text)) as address:
        facts = await ask("first_call", environment(address, Granted("lease-a", 1, bytes(32))))
    assert facts == {"init": None, "count": 1}


async def test_a_silent_agent_is_given_up():
    async with server_that_answers(None) as address:
        facts = await ask("first_call", environment(address, Granted("lease-a", 1, bytes(32))))
    assert facts["init"] == "NVMLError_Timeout"


async def test_no_agent_at_all_is_an_error():
    facts = await ask("first_call", environment("tcp://127.0.0.1:9", Granted("lease-a", 1, bytes(32))))
    assert facts["init"] == "NVMLError_Timeout"

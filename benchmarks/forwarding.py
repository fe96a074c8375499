"""What forwarding costs: the same calls straight on a driver in the process, and through worker and socket.

The kernel does nothing, so that the runtime alone is measured. The driver is the software GPU of the native
build; the socket's own rates are measured in the same run, because no round trip can beat them.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, main
from tests.forwarding.minimal_agent import MinimalAgent
from tests.native_build import Build, build_of_make

MIB = 128


def measure(smallest: bool) -> list[Figure]:
    """The sizes are the smallest that mean something: all of it takes seconds."""
    native = build_of_make("client_cuda", "gpu_worker", "softgpu", "measure_calls")
    driver = native.folder / "softgpu" / "libcuda.so.1"
    memory = {"GPU_KERNELS_SOFTGPU_MEMORY_MIB": str(MIB)}
    socket = run(native, "socket", {})
    direct = run(native, "cuda", memory | {"LD_LIBRARY_PATH": str(driver.parent)})
    with tempfile.TemporaryDirectory() as folder:
        agent = MinimalAgent(Path(folder), native.worker, driver, mib=MIB, environment=memory)
        with agent:
            forwarded = run(native, "cuda", agent.client_environment(native.client))
    return figures(socket, direct, forwarded)


def run(native: Build, what: str, environment: dict[str, str]) -> dict[str, float]:
    """The figures that ``measure_calls`` prints."""
    program = native.folder / "tests_forwarding" / "measure_calls"
    done = subprocess.run(
        [program, what], env=os.environ | environment, capture_output=True, text=True, check=True, timeout=300
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def figures(socket: dict[str, float], direct: dict[str, float], forwarded: dict[str, float]) -> list[Figure]:
    """The socket's rates, then each call forwarded and in the process."""
    ping_pong, stream = socket["ping_pong_us"], socket["stream_gbs"]
    listed = [
        Figure("socket ping-pong", ping_pong, "us", "lower"),
        Figure("socket stream", stream, "GB/s", "higher"),
        Figure(
            "launch, more than in the process", forwarded["launch_us"] - direct["launch_us"], "us", "lower", 1
        ),
    ]
    # Waiting calls should be near the socket's ping-pong, copies near its stream.
    times = {
        "launch_us": ("launch, not waited for", 1.0),
        "single_launch_us": ("launch now and then", None),
        "launch_executed_us": ("launch, until executed", None),
        "synchronize_us": ("synchronize", 2 * ping_pong),
        "launch_and_synchronize_us": ("launch and synchronize", 2 * ping_pong),
        "copy_back_4k_us": ("copy of 4 KiB back", 2 * ping_pong),
        "copy_in_4k_us": ("copy of 4 KiB in", 2.0),
        "record_and_query_us": ("event record and query", 2 * ping_pong),
        "copy_behind_kernel_us": ("asynchronous copy back behind a kernel, until the call returns", 50.0),
        "copy_back_async_4k_us": ("asynchronous copy of 4 KiB back, and synchronize", None),
        "allocate_and_free_us": ("allocate and free 4 KiB", None),
        "allocate_and_free_in_stream_us": ("allocate and free in a stream, and synchronize", None),
    }
    for key, (name, aim) in times.items():
        listed.append(Figure(name, forwarded[key], "us", "lower", aim))
        listed.append(Figure(f"{name}, in the process", direct[key], "us", "lower"))
    rates = {"host_to_device_gbs": "host to device", "device_to_host_gbs": "device to host"}
    for key, name in rates.items():
        listed.append(Figure(f"{name}, 64 MiB", forwarded[key], "GB/s", "higher", stream / 2))
        listed.append(Figure(f"{name}, 64 MiB, in the process", direct[key], "GB/s", "higher"))
    for way, seen in (("", forwarded), (", in the process", direct)):
        name = f"kernels and copies back in turns, two streams beside one{way}"
        listed.append(Figure(name, seen["two_streams_ratio"], "ratio", "higher", None if way else 1.2))
    # In the process host and kernels use the same bytes.
    shared = {"shared_to_device_gbs": "a launch sends", "shared_back_gbs": "a wait brings back"}
    for key, name in shared.items():
        listed.append(
            Figure(f"mapped memory that {name}, 16 MiB", forwarded[key], "GB/s", "higher", stream / 4)
        )
    name = "launch after 64 KiB of mapped memory were filled again"
    listed.append(Figure(name, forwarded["refilled_ms"], "ms", "lower"))
    return listed


if __name__ == "__main__":
    main(measure, __doc__)

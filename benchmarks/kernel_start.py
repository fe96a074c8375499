"""How much longer a kernel with a slice takes to its first reply than one without, on the same Jupyter
server.

Each figure is over ten pairs, one kernel of each kind after the other, in turns, as a browser starts them:
from the request for a session to the reply to ``kernel_info_request`` on the kernel's websocket.
Controller, agent and server are real processes on loopback; the agent offers a software GPU, which no
kernel uses here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from benchmarks.figures import Figure, main, median
from gpu_kernels import kernelspecs
from gpu_kernels.client import PoolClient
from gpu_kernels.hub_config.lab.kernel_channel import KernelChannel

PAIRS = 10
SIZE = "0.02 V100"
COURSE = "bench"
START_TIMEOUT_S = 60


def measure(smallest: bool) -> list[Figure]:
    plain, sliced = [], []
    with tempfile.TemporaryDirectory(prefix="gpu-kernels-bench-") as folder, _server(Path(folder)) as client:
        _first_reply(client, kernelspecs.PLAIN)
        _first_reply(client, kernelspecs.spec_name(SIZE))
        for pair in range(1 if smallest else PAIRS):
            kinds = [(plain, kernelspecs.PLAIN), (sliced, kernelspecs.spec_name(SIZE))]
            for samples, spec in kinds if pair % 2 else reversed(kinds):
                samples.append(_first_reply(client, spec))
    ratio = median(gpu / cpu for gpu, cpu in zip(sliced, plain, strict=True))
    return [
        Figure("kernel start, GPU over plain", ratio, "ratio", "lower", aim=1.10),
        Figure("kernel start, plain", median(plain), "s", "lower"),
        Figure("kernel start, GPU", median(sliced), "s", "lower"),
    ]


def _first_reply(client: httpx.Client, spec: str) -> float:
    """Seconds from asking for a kernel to its first reply; the kernel is stopped afterwards."""
    notebook = f"bench-{secrets.token_hex(4)}.ipynb"
    body = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": spec}}
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    origin = str(client.base_url).rstrip("/")
    start = time.perf_counter()
    session = client.post("/api/sessions", json=body).raise_for_status().json()
    url = f"{origin.replace('http', 'ws', 1)}/api/kernels/{session['kernel']['id']}/channels"
    with KernelChannel(url, cookie, origin) as channel:
        channel.kernel_info()
        seconds = time.perf_counter() - start
    client.delete(f"/api/sessions/{session['id']}").raise_for_status()
    return seconds


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[httpx.Client]:
    """A Jupyter server whose kernels get their slices from a pool of its own; gives a client that is logged
    in.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith(("JUPYTER", "JPY_"))}
    tokens = {name: secrets.token_hex(16) for name in ("student", "agent", "jupyter")}
    kernelspecs.install(prefix=folder / "specs", sizes=[SIZE])
    with contextlib.ExitStack() as stack:
        controller = start_pool(stack, folder, environ, tokens)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = ["-m", "jupyter_server", "--no-browser", f"--port={port}", f"--ServerApp.root_dir={folder}"]
        command += ["--allow-root"] if os.geteuid() == 0 else []
        command.append("--ServerApp.kernel_manager_class=gpu_kernels.kernels.GPUMappingKernelManager")
        theirs = {
            "JUPYTER_TOKEN": tokens["jupyter"],
            "JUPYTER_PATH": str(folder / "specs" / "share" / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(folder),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "GPU_KERNELS_CONTROLLER": controller,
            "GPU_KERNELS_TOKEN": tokens["student"],
            "GPU_KERNELS_COURSE": COURSE,
        }
        _start(stack, folder / "server.log", command, environ | theirs)
        headers = {"Authorization": f"token {tokens['jupyter']}"}
        client = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=START_TIMEOUT_S, trust_env=False
            )
        )
        _until(lambda: _answers(client, "/api/status"), folder / "server.log")
        # A token in the address is answered with the cookie that the websocket needs.
        client.get("/api/status", params={"token": tokens["jupyter"]}).raise_for_status()
        yield client


def start_pool(
    stack: contextlib.ExitStack, folder: Path, environ: dict[str, str], tokens: dict[str, str]
) -> str:
    """Start controller and agent; the controller's URL, once the agent's GPU is on offer."""
    state = folder / "pool"
    state.mkdir(mode=0o700)
    known = {
        tokens["student"]: {"name": "student", "groups": [COURSE], "scopes": ["custom:gpu:use"]},
        tokens["agent"]: {"name": "bench", "scopes": ["custom:gpu:agent"]},
    }
    digests = {hashlib.sha256(token.encode()).hexdigest(): who for token, who in known.items()}
    (state / "tokens.json").touch(mode=0o600)
    (state / "tokens.json").write_text(json.dumps(digests))
    config = {"courses": {COURSE: {"V100": {"thousandths": 1000}}}, "url_file": str(folder / "url")}
    (folder / "pool.json").write_text(json.dumps({"PoolController": config}))
    command = ["-m", "gpu_kernels.pool", "--port=0", f"--state-dir={state}", f"--config={folder}/pool.json"]
    _start(stack, folder / "pool.log", command, environ)
    _until((folder / "url").exists, folder / "pool.log")
    url = (folder / "url").read_text()
    command = [
        "-m",
        "gpu_kernels.remoting.agent",
        "--name=bench",
        "--device=software",
        "--machine-memory-mib=65536",
        f"--state-dir={folder}/agent",
    ]
    theirs = {"GPU_KERNELS_CONTROLLER": url, "GPU_KERNELS_TOKEN": tokens["agent"]}
    _start(stack, folder / "agent.log", command, environ | theirs)
    student = PoolClient(url, tokens["student"])
    _until(lambda: any(gpu.available for gpu in student.pool().gpus), folder / "agent.log")
    return url


def _start(stack: contextlib.ExitStack, log: Path, command: list[str], environ: dict[str, str]) -> None:
    """Start a Python process that the stack ends."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environ,
            stdout=file,
            stderr=file,
            stdin=subprocess.DEVNULL,
            cwd=Path(__file__).parents[1],
        )
    stack.callback(process.wait)
    stack.callback(process.terminate)


def _until(ready: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"A process of the benchmark did not get ready:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def _answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).is_success
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    main(measure, __doc__)

"""A kernel of any Python, from its start to the end of its first cell."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

WITHIN_S = 300
NAME = "measured"


def seconds_to_import(module: str, python: str, environment: Mapping[str, str]) -> float:
    """Seconds until a fresh kernel of ``python`` has imported ``module``. Raises ``RuntimeError`` where it
    cannot.
    """
    with tempfile.TemporaryDirectory() as folder:
        _describe(Path(folder) / NAME, python)
        manager = KernelManager(
            kernel_name=NAME,
            kernel_spec_manager=KernelSpecManager(kernel_dirs=[folder], ensure_native_kernel=False),
        )
        begun = time.perf_counter()
        manager.start_kernel(env=dict(environment))
        try:
            _run(manager, f"import {module}")
            return time.perf_counter() - begun
        finally:
            manager.shutdown_kernel(now=True)


def _describe(folder: Path, python: str) -> None:
    folder.mkdir()
    command = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": NAME, "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))


def _run(manager: KernelManager, cell: str) -> None:
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=WITHIN_S)
        reply = client.execute_interactive(cell, timeout=WITHIN_S, output_hook=lambda message: None)
    finally:
        client.stop_channels()
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"{cell}: {reply['content'].get('evalue')}")

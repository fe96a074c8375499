"""Users of Jupyter that own no event loop: the same slices for ``nbclient`` and for blocking managers."""

from __future__ import annotations

import sys
import threading

import nbclient
import nbformat
import pytest
from jupyter_client.manager import KernelManager

IPYKERNEL = [
    sys.executable,
    "-m",
    "ipykernel_launcher",
    "-f",
    "{connection_file}",
    "--ext=gpu_kernels.magics",
]


def test_a_blocking_manager_starts_restarts_and_stops(pool, make_kernel):
    kernel = make_kernel(cls=KernelManager)
    kernel.start_kernel()
    (lease,) = pool.in_force()
    kernel.restart_kernel(now=True)
    assert [kept.id for kept in pool.in_force()] == [lease.id]
    kernel.shutdown_kernel(now=True)
    assert pool.in_force() == []


def test_each_hook_may_run_on_another_thread(pool, make_kernel):
    kernel = make_kernel(cls=KernelManager)
    for call in (kernel.start_kernel, lambda: kernel.restart_kernel(now=True), kernel.shutdown_kernel):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert pool.in_force() == []


@pytest.fixture
def run_notebook(specs, monkeypatch):
    """Runs cells with nbclient in an ipykernel on 0.02 V100; gives the text each printed or returned."""
    monkeypatch.setenv("JUPYTER_PATH", str(specs.folder.parent))

    def run(*cells: str) -> list[str]:
        specs("small", argv=IPYKERNEL, watch_s=0.3)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbclient.NotebookClient(notebook, kernel_name="small", timeout=60).execute()
        return ["".join(map(_text, cell.outputs)) for cell in notebook.cells]

    return run


def _text(output: nbformat.NotebookNode) -> str:
    return output.get("text") or output.get("data", {}).get("text/plain", "")


def test_nbclient_runs_a_notebook_on_a_slice_and_gives_it_back(pool, run_notebook):
    lease_id, size = run_notebook(
        "import os; print(os.environ['GPU_KERNELS_LEASE'])", "print(os.environ['GPU_KERNELS_SIZE'])"
    )
    assert size.strip() == "0.02 V100"
    assert pool.student.get(lease_id.strip()).state in ("draining", "released")
    assert pool.in_force() == []


def test_gpu_magic_tells_what_the_controller_knows_of_the_lease(pool, run_notebook):
    (text,) = run_notebook("%gpu")
    assert text.startswith("A slice of 0.02 V100")
    assert "0.02 V100, 655 MiB, 2 % of a GPU's time" in text
    assert "server-1, tcp://127.0.0.1:1024" in text
    assert "granted, not used yet; renewed while this kernel runs" in text
    assert "ml101" in text
    assert "The GPU server at tcp://127.0.0.1:1024 does not answer" in text


def test_gpu_magic_tells_that_the_slice_was_taken_back(pool, run_notebook):
    revoke = (
        "from gpu_kernels.client import PoolClient; import os;"
        f"PoolClient({pool.url!r}, 'admin-token').revoke(os.environ['GPU_KERNELS_LEASE'], 'maintenance')"
    )
    _, text = run_notebook(revoke + ";", "%gpu")
    assert text.startswith("This kernel's slice of 0.02 V100 is over.")
    assert "maintenance" in text
    assert "%gpu wait" in text

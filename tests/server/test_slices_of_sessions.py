"""What becomes of slices when a browser, a signal or a stubborn reload meets a real Jupyter server."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpu_kernels.client import Slot
from tests.provisioner.conftest import PROCESS
from tests.provisioner.pool import wait_until
from tests.server.conftest import Server

NOTEBOOK = "lesson.ipynb"


@pytest.fixture
def own_server(tmp_path, pool):
    """A server that the test may kill, with a kernel that is refused at once where there is no slice."""
    server = Server(tmp_path, pool)
    spec = {
        "argv": PROCESS,
        "display_name": "Patient",
        "language": "python",
        "metadata": {
            "kernel_provisioner": {
                "provisioner_name": "gpu-slice",
                "config": {"size": "0.02 V100", "start": "patient", "wait_s": 0, "watch_s": 0},
            }
        },
    }
    folder = tmp_path / "data" / "kernels" / "patient"
    folder.mkdir()
    (folder / "kernel.json").write_text(json.dumps(spec))
    yield server
    if server.process.poll() is None:
        server.close()
    pool.empty()


def open_notebook(server: Server, kernel: str = "0.02"):
    """As JupyterLab opens a notebook."""
    body = {"path": NOTEBOOK, "name": NOTEBOOK, "type": "notebook", "kernel": {"name": kernel}}
    return server.http.post("/api/sessions", json=body)


def test_a_notebook_that_is_opened_twice_at_once_has_one_slice(server, pool):
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda _: open_notebook(server), range(2)))
    assert [answer.status_code for answer in answers] == [201, 201]
    wait_until(lambda: server.all_are("attached"))
    assert len(pool.leases()) == 1
    assert pool.used_mib() == pool.in_force()[0].mib


def test_a_notebook_that_is_opened_twice_while_it_waits_stands_in_the_line_once(server, pool):
    pool.limit(5000)
    pool.student.ask("1 V100", key="b", slot=Slot("", "b"), holder="blocker")
    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(lambda _: open_notebook(server), range(2)))
    assert [answer.status_code for answer in answers] == [201, 201]
    wait_until(lambda: all(told["position"] for told in server.told()["kernels"]))
    assert len([lease for lease in pool.leases() if lease.queued]) == 1


@pytest.mark.parametrize(("before", "after"), [("0.02", "0.1"), ("0.1", "0.02")])
def test_change_kernel_at_the_courses_limit_swaps_the_slice(server, pool, before, after):
    pool.limit(100)
    session = open_notebook(server, before).json()["id"]
    wait_until(lambda: [lease.size for lease in pool.in_force()] == [f"{before} V100"])
    changed = server.http.patch(f"/api/sessions/{session}", json={"kernel": {"name": after}})
    assert changed.status_code == 200, changed.text
    wait_until(lambda: [lease.size for lease in pool.in_force()] == [f"{after} V100"])
    assert server.http.get("/api/kernels").json() == [changed.json()["kernel"]]


def test_a_server_that_refused_a_kernel_stops_when_it_is_told_to(own_server, pool):
    own_server.start_kernel()
    pool.limit(20)
    refused = open_notebook(own_server, "patient")
    assert refused.status_code == 500
    assert "ml101" in refused.json()["message"]
    own_server.process.send_signal(signal.SIGTERM)
    assert own_server.process.wait(60) == 0
    wait_until(lambda: pool.leases() == [])


def test_a_kernel_restarts_though_its_course_is_over_its_limit(server, pool):
    kernel = server.start_kernel()
    (before,) = pool.in_force()
    pool.limit(0)
    assert server.http.post(f"/api/kernels/{kernel}/restart").status_code == 200
    assert [lease.id for lease in pool.in_force()] == [before.id]

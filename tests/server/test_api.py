"""How the slices of a server's kernels are told and changed over HTTP."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection

import httpx
import pytest

from gpu_kernels.server.handlers import MAX_BODY
from tests.provisioner.pool import wait_until
from tests.server.conftest import TOKEN, Server

WRONG_BODIES = {
    "no JSON": b"{",
    "no object": b'"0.02 V100"',
    "no size": b"{}",
    "a number": b'{"size": 0.02}',
    "deep": b"[" * MAX_BODY,
    "no text": b"\xff\xfe",
    "empty": b"",
}


def test_a_kernel_with_a_slice_says_what_it_has(server, pool):
    kernel = server.start_kernel()
    told = server.told(kernel)
    (lease,) = pool.in_force()
    assert (told["id"], told["state"], told["size"]) == (kernel, "attached", "0.02 V100")
    assert (told["lease"], told["total_mib"], told["course"]) == (lease.id, 655, "ml101")
    assert told["ends_why"] == "longest life"
    (again,) = server.told()["kernels"]
    assert again == told | {"ends_in": pytest.approx(told["ends_in"], abs=3600), "changes": again["changes"]}


def test_release_and_wait_give_the_slice_back_and_ask_again(server, pool):
    kernel = server.start_kernel()
    released = server.change(kernel, "release").json()
    assert (released["state"], released["lost"]) == ("released", False)
    wait_until(lambda: pool.in_force() == [])
    assert server.change(kernel, "wait").is_success
    wait_until(lambda: server.told(kernel)["state"] == "attached")


def test_another_size_replaces_the_first(server, pool):
    kernel = server.start_kernel()
    assert server.change(kernel, "attach", size="0.1 V100").is_success
    wait_until(lambda: server.told(kernel)["size"] == "0.1 V100")
    wait_until(lambda: [lease.size for lease in pool.in_force()] == ["0.1 V100"])


def test_who_waits_sees_the_place_and_may_leave_the_line(server, pool):
    pool.limit(20)
    first, second = server.start_kernel(), server.start_kernel(state="waiting")
    waiting = wait_until(lambda: (told := server.told(second))["position"] and told)
    assert (waiting["state"], waiting["position"], waiting["lease"] is None) == ("waiting", 1, False)
    assert server.change(second, "release").json()["state"] == "released"
    assert server.told(first)["state"] == "attached"
    wait_until(lambda: len(pool.leases()) == 1)


def test_a_size_that_is_refused_is_told_in_the_controllers_words_and_changes_nothing(server, pool):
    pool.limit(20)
    kernel = server.start_kernel()
    assert server.change(kernel, "attach", size="0.5 V100").is_success
    told = wait_until(lambda: "You still have 0.02 V100" in (told := server.told(kernel))["text"] and told)
    assert (told["state"], told["size"], told["wanted"]) == ("attached", "0.02 V100", None)


def test_keep_leaves_the_line_for_another_size(server, pool):
    pool.limit(2000)  # the GPU is full, and the course's limit is not in the way
    kernel, other = server.start_kernel(), server.start_kernel()
    server.change(other, "attach", size="0.95 V100")
    wait_until(lambda: server.told(other)["size"] == "0.95 V100")
    assert server.change(kernel, "attach", size="0.1 V100").is_success
    wait_until(lambda: (server.told(kernel)["wanted"] or {}).get("position"))
    kept = server.change(kernel, "keep").json()
    assert (kept["state"], kept["size"], kept["wanted"]) == ("attached", "0.02 V100", None)


def test_a_slice_that_was_taken_back_is_told_as_lost_until_another_is_granted(server, pool):
    kernel = server.start_kernel()
    pool.admin.revoke(pool.in_force()[0].id, "the room is needed")
    server.change(kernel, "wait")  # asks for the lease, finds it gone, and asks anew
    told = wait_until(lambda: (told := server.told(kernel))["state"] == "attached" and told)
    assert not told["lost"]
    pool.admin.revoke(pool.in_force()[0].id, "the room is needed")
    pool.limit(0)
    server.change(kernel, "wait")
    told = wait_until(lambda: (told := server.told(kernel))["lost"] and told)
    assert "the room is needed" in told["text"]


def test_the_course_tells_its_sizes_and_how_far_budgets_are_spent(server, pool):
    pool.admin.set_rules("ml101", {"sizes": ["0.02 V100"], "user_hours_per_week": 4})
    try:
        course = server.http.get("/gpu-lab/api/course").json()
    finally:
        pool.admin.set_rules("ml101", {})
    assert (course["course"], course["sizes"]) == ("ml101", ["0.02 V100"])
    (budget,) = course["budgets"]
    assert (budget["most"], budget["part"]) == (4.0, 0.0)
    assert "your share of ml101" in budget["text"]


@pytest.mark.parametrize("body", WRONG_BODIES.values(), ids=WRONG_BODIES)
def test_a_request_that_names_no_size_is_refused_and_changes_nothing(server, body):
    kernel = server.start_kernel()
    answer = server.http.post(f"/gpu-lab/api/kernels/{kernel}/attach", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert server.told(kernel)["size"] == "0.02 V100"


def test_a_size_that_is_none_is_refused_in_the_words_of_sizes(server):
    answer = server.change(server.start_kernel(), "attach", size="100% V100")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_size")
    assert "100% V100" in answer.json()["message"]


def test_a_long_body_is_refused_before_it_is_read(server):
    kernel = server.start_kernel()
    address = f"/gpu-lab/api/kernels/{kernel}/attach"
    # Says how long it is, and sends none of it: the answer is there all the same.
    with closing(HTTPConnection(server.http.base_url.netloc.decode(), timeout=60)) as connection:
        connection.putrequest("POST", address)
        connection.putheader("Authorization", f"token {TOKEN}")
        connection.putheader("Content-Length", str(MAX_BODY + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413
    chunks = (b"x" * 1000 for _ in range(100))
    with suppress(httpx.TransportError):  # it may hang up before all is sent
        assert server.http.post(address, content=chunks).is_client_error
    assert server.told(kernel)["state"] == "attached"


def test_a_kernel_that_is_none_of_ours_is_not_found(server):
    for method, address in (("GET", "kernels/none"), ("POST", "kernels/none/release")):
        answer = server.http.request(method, f"/gpu-lab/api/{address}")
        assert answer.status_code == 404
        assert "Change Kernel" in answer.json()["message"]
    assert server.http.post("/gpu-lab/api/kernels/none/explode").status_code == 404


def test_who_does_not_say_who_he_is_gets_nothing(server):
    kernel = server.start_kernel()
    with server.visitor() as stranger:
        for address in ("kernels", f"kernels/{kernel}", "course", "events"):
            assert stranger.get(f"/gpu-lab/api/{address}").status_code == 403
        assert stranger.post(f"/gpu-lab/api/kernels/{kernel}/release").status_code == 403
    assert server.told(kernel)["state"] == "attached"


def test_a_page_of_another_site_changes_and_reads_nothing(server):
    kernel = server.start_kernel()
    with server.visitor() as browser:
        browser.get("/login")
        browser.get("/login", params={"token": TOKEN})
        release = f"/gpu-lab/api/kernels/{kernel}/release"
        assert browser.post(release).status_code == 403  # no XSRF token
        elsewhere = {"Origin": "http://elsewhere.example", "X-XSRFToken": browser.cookies["_xsrf"]}
        assert browser.post(release, headers=elsewhere).status_code in (403, 404)
        assert browser.get("/gpu-lab/api/events", headers=elsewhere).status_code in (403, 404)
        assert server.told(kernel)["state"] == "attached"
        assert browser.post(release, headers={"X-XSRFToken": browser.cookies["_xsrf"]}).is_success


def test_the_servers_authorizer_is_asked(tmp_path, pool):
    reader = """
from jupyter_server.auth import Authorizer
class ReadsOnly(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return action == "read" or "gpu-lab" not in handler.request.path
c.ServerApp.authorizer_class = ReadsOnly
"""
    server = Server(tmp_path, pool, reader)
    try:
        kernel = server.start_kernel()
        assert server.change(kernel, "release").status_code == 403
        assert server.told(kernel)["state"] == "attached"
    finally:
        server.end_kernels()
        server.close()


def test_a_controller_that_stands_still_holds_up_nobody_else(server, pool):
    kernel = server.start_kernel()
    os.kill(pool._process.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as threads:
            released = threads.submit(server.change, kernel, "release")
            looked = threads.submit(server.told, kernel)
            assert server.http.get("/api/status").is_success
            assert len(server.told()["kernels"]) == 1
            os.kill(pool._process.pid, signal.SIGCONT)
            assert released.result().json()["state"] == "released"
            assert looked.result()["id"] == kernel
    finally:
        os.kill(pool._process.pid, signal.SIGCONT)

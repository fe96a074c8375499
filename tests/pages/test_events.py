"""The controller's stream of changes, as it is passed on to a visitor's browser."""

import json
import queue
import threading
from contextlib import contextmanager

import pytest

from gpu_kernels.spawner.ports import free_port
from tests.pages.site import FETCH, PREFIX, Site
from tests.pool.controller import reserve

SOON = 60


@contextmanager
def stream(visitor, topics, **headers):
    """The lines of a stream as they come, in a queue."""
    lines = queue.Queue()
    asked = {**FETCH, "X-XSRFToken": visitor.xsrf(), **headers}
    with visitor.http.stream("GET", f"{PREFIX}events", params={"topics": topics}, headers=asked) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")

        def read():
            try:
                for line in answer.iter_lines():
                    lines.put(line)
            except Exception:
                lines.put(None)  # the test has closed it

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        yield lines


def event(lines, name):
    """The next event of that name: its id and its data."""
    fields = {}
    while True:
        line = lines.get(timeout=SOON)
        assert line is not None, "the stream has ended"
        if line:
            key, _, value = line.partition(": ")
            fields[key] = value
            continue
        if fields.get("event") == name:
            return int(fields["id"]), json.loads(fields["data"])
        fields = {}


def test_a_visitor_is_told_that_something_has_changed_and_nothing_else(visit, controller, gpu):
    with stream(visit("grace"), "course:ml101") as lines, controller.client("ada") as ada:
        ready, _ = event(lines, "ready")
        lease = reserve(ada, "told.ipynb")
        number, data = event(lines, "change")
        assert number > ready
        assert data == {"kind": "reserved"}
        ada.release(lease.id, lease.holder)
        gpu.carry_out()


def test_a_student_is_told_that_the_limit_has_changed(visit, controller):
    with stream(visit("ada"), "leases") as lines, controller.client("root") as root:
        event(lines, "ready")
        root.set_limit("ml101", {"V100": 90})
        assert event(lines, "change")[1] == {"kind": "limit"}
        root.set_limit("ml101", {"V100": 100})


def test_a_stream_goes_on_where_the_last_one_ended(visit, controller, gpu):
    with stream(visit("ada"), "leases") as lines:
        last, _ = event(lines, "ready")
    with controller.client("ada") as ada:
        lease = reserve(ada, "missed.ipynb")
        ada.release(lease.id, lease.holder)
        gpu.carry_out()
    with stream(visit("ada"), "leases", **{"Last-Event-ID": str(last)}) as lines:
        assert event(lines, "change")[1] == {"kind": "reserved"}


@pytest.mark.parametrize("topics", ["pool", "course:cv202", "leases,pool", "nonsense", "", "x" * 5000])
def test_what_a_visitor_may_not_follow_is_refused_in_the_scripts_words(visit, topics):
    ada = visit("ada")
    headers = {**FETCH, "X-XSRFToken": ada.xsrf()}
    answer = ada.http.get(f"{PREFIX}events", params={"topics": topics}, headers=headers)
    assert answer.status_code in (400, 403)
    assert answer.json()["error"]["kind"] == "refused"


def test_a_stream_without_the_xsrf_token_is_refused(visit):
    answer = visit("ada").http.get(f"{PREFIX}events", params={"topics": "leases"}, headers=FETCH)
    assert answer.status_code == 403
    assert answer.json()["error"]["kind"] == "signed_out"


def test_a_controller_that_does_not_answer_is_said_to_the_script(tmp_path, visit):

    with Site(f"http://127.0.0.1:{free_port()}", tmp_path) as site, site.visitor("ada") as ada:
        headers = {**FETCH, "X-XSRFToken": ada.xsrf()}
        answer = ada.http.get(f"{PREFIX}events", params={"topics": "leases"}, headers=headers)
        assert answer.status_code == 503
        assert answer.json()["error"]["kind"] == "pool_away"

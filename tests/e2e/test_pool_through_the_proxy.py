"""The pool controller as the hub's managed service, reached as from outside: through the proxy."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from gpu_kernels.client import PoolClient, Slot
from gpu_kernels.errors import Forbidden, Unauthenticated
from gpu_kernels.hub_config.lab import accounts
from tests.e2e.conftest import ROOMY, set_limit

pytestmark = [pytest.mark.hub, pytest.mark.native]

PREFIX = "/services/gpu"
PRINT_TOKEN = "import json, os; print(json.dumps(os.environ['JUPYTERHUB_API_TOKEN']))"


@pytest.fixture
def proxied(lab):
    """`proxied(token)` is a client of the pool behind the proxy."""
    clients = []

    def connect(token):
        clients.append(PoolClient(lab.settings.url + PREFIX, token))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def server_token(someone):
    """The token of someone's running server, as its kernels have it."""
    session = someone.start_kernel("python3", "token.ipynb")
    with someone.channel(session["kernel"]["id"]) as channel:
        return json.loads(channel.execute(PRINT_TOKEN).text)


def test_the_hub_routes_the_services_prefix_to_the_controller(lab, proxied):
    through, past = proxied(lab.runner_token).pool(), lab.gpus()
    assert [gpu.uuid for gpu in through.gpus] == [gpu.uuid for gpu in past]


def test_a_students_server_token_sees_the_pool_and_reserves_nothing_above_its_scope(proxied, at_work):
    student = proxied(server_token(at_work("ana")))
    assert student.pool().gpus
    assert student.list() == []
    with pytest.raises(Forbidden):
        student.list(everyone=True)
    with pytest.raises(Forbidden):
        student.set_limit(accounts.COURSE, {})


def test_a_token_that_the_hub_does_not_know_is_refused_by_the_controller(proxied):
    with pytest.raises(Unauthenticated):
        proxied("no-such-token").pool()


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/nothing", "/"])
def test_an_address_below_the_prefix_that_is_not_there_is_answered_by_the_controller(lab, path):
    answer = httpx.get(lab.settings.url + PREFIX + path, trust_env=False)
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("path", ["/health", "/metrics", "/api/v1/health", "/api/v1/metrics"])
def test_health_and_metrics_need_a_token_through_the_proxy_and_past_it(lab, path):
    """The proxy stands on the same machine, and so do the students' servers."""
    headers = {"Authorization": f"token {lab.runner_token}"}
    for url in (lab.settings.url + PREFIX + path, lab.settings.controller_url + path):
        assert httpx.get(url, trust_env=False).status_code == 401
        assert httpx.get(url, headers=headers, trust_env=False).status_code == 200


def test_a_queued_request_is_woken_through_the_proxy(lab, proxied, at_work):
    """Ana has the whole GPU and gives it back while a second notebook of hers waits for it."""
    set_limit(lab, 2 * ROOMY)
    student = proxied(server_token(at_work("ana")))
    size = f"1 {lab.settings.gpu_class}"
    first, second = (
        student.ask(size, key=name, slot=Slot("", name), holder="h", course=accounts.COURSE, wait=60)
        for name in ("first.ipynb", "second.ipynb")
    )
    assert (first.state, second.state) == ("reserved", "queued")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(student.get, second.id, 25.0)
        student.release(first.id, "h")
        assert waiting.result(60).state == "reserved"
    student.release(second.id, "h")


def test_changes_are_streamed_through_the_proxy_as_they_happen(lab, proxied, at_work):
    """A proxy that gathered the answer before passing it on would tell nothing at all."""
    student = proxied(server_token(at_work("ana")))
    changes = student.follow("leases")
    assert next(changes).name == "ready"
    size = f"0.01 {lab.settings.gpu_class}"
    lease = student.ask(size, key="s", slot=Slot("", "s.ipynb"), holder="h", course=accounts.COURSE)
    change = next(changes).change
    assert (change.kind, change.subject) == ("reserved", lease.id)
    student.release(lease.id, "h")
    assert next(changes).change.kind in ("active", "draining")
    changes.close()


def test_the_api_describes_itself_through_the_proxy(lab):
    versions = httpx.get(f"{lab.settings.url}{PREFIX}/api", trust_env=False).json()["versions"]
    document = httpx.get(lab.settings.url + versions[0]["document"], trust_env=False).json()
    assert document["servers"] == [{"url": f"{PREFIX}/api/v1"}]

import asyncio
import logging
from types import SimpleNamespace

import pytest
from jupyterhub.spawner import SpawnException
from traitlets.config import Config, LoggingConfigurable

from gpu_kernels.client.lease_request import server_name
from gpu_kernels.spawner import GPULabMixin
from gpu_kernels.spawner.slices import slices_of_servers
from tests.pool.controller import Agent, ThreadedController, reserve, token

CLOSED = "http://127.0.0.1:9/services/gpu"


class RecordingSpawner(LoggingConfigurable):
    """What the mixin needs of a spawner, and a list of what was called on it."""

    name = ""
    _log_name = "ana"

    def __init__(self, groups=(), user_options=None, **kwargs):
        super().__init__(**kwargs)
        self.calls = []
        self.user = SimpleNamespace(
            name="ana",
            groups=[SimpleNamespace(name=group) for group in groups],
            new_api_token=self.new_api_token,
        )
        self.orm_spawner = SimpleNamespace(user_options=None)
        self.user_options = user_options if user_options is not None else {}

    def new_api_token(self, *, note, expires_in, scopes):
        self.calls.append(("token", expires_in, scopes))
        return "a" * 32

    def start(self):
        self.calls.append("start")
        return ("127.0.0.1", 1234)

    def get_env(self):
        return {"BASE": "1"}

    def get_state(self):
        return {"pid": 7}

    async def poll(self):
        return None

    def load_state(self, state):
        self.calls.append(("load", state["pid"]))

    def clear_state(self):
        self.calls.append("clear")

    def run_post_stop_hook(self):
        self.calls.append("post_stop")

    async def get_options_form(self):
        return "<select name='image'>"

    def run_options_from_form(self, form_data):
        return {"image": form_data["image"][0]}

    options_from_query = run_options_from_form


class AsyncSpawner(RecordingSpawner):
    async def start(self):
        await asyncio.sleep(0)
        return super().start()

    async def run_post_stop_hook(self):
        await asyncio.sleep(0)
        super().run_post_stop_hook()


class GPURecording(GPULabMixin, RecordingSpawner):
    pass


class GPUAsync(GPULabMixin, AsyncSpawner):
    pass


@pytest.mark.parametrize("kind", [GPURecording, GPUAsync])
async def test_any_spawner_starts_under_the_mixin(kind):
    spawner = kind(groups=["ml101"])
    assert await spawner.start() == ("127.0.0.1", 1234)
    assert spawner.calls == ["start"]
    assert spawner.gpu_slice_course == "ml101"


async def test_the_server_learns_its_controller_and_course():
    spawner = GPURecording(groups=["ml101"], gpu_slice_controller=CLOSED)
    await spawner.start()
    assert spawner.get_env() == {
        "BASE": "1",
        "GPU_KERNELS_CONTROLLER": CLOSED,
        "GPU_KERNELS_COURSE": "ml101",
    }


async def test_a_server_in_no_course_learns_the_controller_only():
    spawner = GPURecording(gpu_slice_controller=CLOSED)
    await spawner.start()
    assert spawner.get_env() == {"BASE": "1", "GPU_KERNELS_CONTROLLER": CLOSED}


async def test_without_a_controller_the_mixin_changes_nothing():
    spawner = GPURecording(groups=["ml101"])
    await spawner.start()
    assert spawner.get_env() == {"BASE": "1"}
    await spawner.run_post_stop_hook()
    assert spawner.calls == ["start", "post_stop"]


async def test_a_refused_course_starts_nothing():
    spawner = GPURecording(groups=["ml101"], user_options={"course": "ds200"})
    with pytest.raises(SpawnException):
        await spawner.start()
    assert spawner.calls == []


@pytest.mark.parametrize("user_options", [None, [], "ml101", 7])
async def test_user_options_of_any_shape_are_survived(user_options):
    spawner = GPURecording(groups=["ml101"])
    spawner.user_options = user_options
    await spawner.start()
    assert spawner.gpu_slice_course == "ml101"


async def test_the_course_survives_a_restart_of_the_hub():
    before, after = GPURecording(groups=["ml101"]), GPURecording(groups=["ml101"])
    await before.start()
    assert before.get_state() == {"pid": 7, "gpu_course": "ml101"}
    after.load_state(before.get_state())
    assert after.gpu_slice_course == "ml101"
    assert after.calls == [("load", 7)]
    after.clear_state()
    assert after.get_state() == {"pid": 7}


async def test_the_admin_panel_shows_what_a_running_server_holds_and_waits_for(tmp_path):
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        ada = controller.client("ada")
        reserve(ada, "a.ipynb", "0.08 V100")
        reserve(ada, "b.ipynb", "0.05 V100", wait=600, wait_for_course=True)
        spawner = GPURecording(gpu_slice_controller=controller.url, gpu_slice_panel_token=token("root"))
        spawner.user.name = "ada"
        assert spawner.get_state() == {"pid": 7}, "nothing is known yet"
        panel = slices_of_servers(controller.url, token("root"))
        assert await spawner.poll() is None
        await asyncio.to_thread(panel.ask)
        assert spawner.get_state()["gpu_slices"] == (
            "0.08 V100 granted on gpu1 (a.ipynb); 0.05 V100 waits, number 1 (b.ipynb)"
        )
        spawner.name = "second"
        assert spawner.get_state()["gpu_slices"] == "none"


def test_the_mixin_is_configured_under_its_own_name():
    config = Config({"GPULabMixin": {"gpu_slice_controller": CLOSED, "gpu_slice_courses": ["ml101"]}})
    spawner = GPURecording(groups=["ml101", "staff"], config=config)
    assert spawner.gpu_slice_controller == CLOSED
    assert spawner.gpu_slice_courses_of_user() == ["ml101"]


async def test_the_form_of_the_base_class_stays_and_the_course_goes_above_it():
    form = await GPURecording(groups=["ml101", "ds200"]).get_options_form()
    assert form.index('name="course"') < form.index("name='image'")
    assert await GPURecording(groups=["ml101"]).get_options_form() == "<select name='image'>"


async def test_what_the_base_class_reads_of_the_form_stays():
    given = {"image": ["big"], "course": ["ml101"]}
    spawner = GPURecording(groups=["ml101"])
    assert await spawner.run_options_from_form(given) == {"image": "big", "course": "ml101"}
    assert await spawner.options_from_query(given) == {"image": "big", "course": "ml101"}


async def test_a_controller_that_is_down_does_not_fail_the_stop(caplog):
    spawner = GPURecording(gpu_slice_controller=CLOSED, log=logging.getLogger("test-spawner"))
    await spawner.run_post_stop_hook()
    assert spawner.calls[0] == "post_stop"
    assert "were not released" in caplog.text
    assert "a" * 32 not in caplog.text


async def test_the_release_is_asked_with_a_short_lived_token_that_can_do_no_more():
    spawner = GPURecording(gpu_slice_controller=CLOSED, gpu_slice_service="gpu")
    await spawner.run_post_stop_hook()
    assert ("token", 120, ["access:services!service=gpu", "custom:gpu:use!user"]) in spawner.calls


async def test_the_log_says_how_many_leases_a_stopped_server_had_left(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with ThreadedController(tmp_path / "state") as controller:
        Agent(controller.client("gpu-server")).register()
        for path in ("a.ipynb", "b.ipynb"):
            reserve(controller.client("ada"), path)
        spawner = GPURecording(gpu_slice_controller=controller.url, log=logging.getLogger("test-spawner"))
        spawner.user.new_api_token = lambda **wish: token("ada")
        await spawner.run_post_stop_hook()
    assert "Released 2 GPU lease(s) that ana had left." in caplog.messages


async def test_a_controller_that_never_answers_does_not_hold_up_the_stop(caplog):
    connected = asyncio.Event()

    async def silent(reader, writer):
        connected.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    spawner = GPURecording(
        gpu_slice_controller=f"http://127.0.0.1:{port}",
        gpu_slice_release_timeout=0.3,
        log=logging.getLogger("test-spawner"),
    )
    async with server:
        while not connected.is_set():  # the time may be over before it has connected
            await asyncio.wait_for(spawner.run_post_stop_hook(), 60)
    assert "they end when they expire" in caplog.text


@pytest.mark.parametrize("hub_name", ["", "second"])
def test_the_hub_and_the_provisioner_call_a_server_the_same(hub_name):
    assert hub_name == server_name({"JUPYTERHUB_SERVER_NAME": hub_name})

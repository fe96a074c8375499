"""Which kernels share a slot or a key, and which must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.identity import MAX_PATH, identify

pytestmark = pytest.mark.quick

HUB = {"JUPYTERHUB_SERVER_NAME": ""}
SMALL = ("python3-gpu-0.02-v100", "0.02 V100", "ml101")
LARGE = ("python3-gpu-0.1-v100", "0.1 V100", "ml101")


def session(path: str, **more: str) -> dict[str, str]:
    return {"JPY_SESSION_NAME": path, **more}


def test_a_reload_of_a_notebook_is_the_same_request():
    first = identify("kernel-1", SMALL, session("/home/a/x.ipynb"), HUB)
    again = identify("kernel-2", SMALL, session("/home/a/x.ipynb"), HUB)
    assert (first.slot, first.key) == (again.slot, again.key)


def test_change_kernel_is_another_request_for_the_same_slot():
    small = identify("kernel-1", SMALL, session("/home/a/x.ipynb"), HUB)
    large = identify("kernel-2", LARGE, session("/home/a/x.ipynb"), HUB)
    assert small.slot == large.slot
    assert small.key != large.key


def test_two_servers_of_a_user_do_not_share_a_notebooks_slot():
    default = identify("k", SMALL, session("/home/a/x.ipynb"), HUB)
    named = identify("k", SMALL, session("/home/a/x.ipynb"), {"JUPYTERHUB_SERVER_NAME": "second"})
    assert default.slot != named.slot
    assert default.key != named.key
    assert (default.slot.server, named.slot.server) == ("", "second")


def test_kernels_without_a_notebook_share_with_nobody():
    first, second = (identify(kernel, SMALL, {}, HUB) for kernel in ("kernel-1", "kernel-2"))
    assert first.slot != second.slot
    assert first.key != second.key
    assert first.notebook is None


def test_a_kernel_started_from_within_a_notebook_does_not_take_that_notebooks_slot():
    outer = identify("kernel-1", SMALL, session("/home/a/x.ipynb"), HUB)
    inherited = session("/home/a/x.ipynb", **HUB)
    inner = identify("kernel-2", SMALL, inherited, inherited)
    assert inner.slot != outer.slot


def test_without_a_hub_the_host_is_the_server():
    assert identify("k", SMALL, {}, {}).slot.server != ""


@given(st.text(min_size=1, max_size=600), st.text(min_size=1, max_size=600))
def test_slots_and_keys_are_bounded_and_as_different_as_the_paths(one, other):
    first = identify("k", SMALL, session(one), HUB)
    second = identify("k", SMALL, session(other), HUB)
    assert len(first.slot.path) <= MAX_PATH
    assert len(first.key) == 32
    assert (first.slot == second.slot) == (one == other)
    assert (first.key == second.key) == (one == other)


@given(st.text(min_size=1), st.text(), st.text(min_size=1), st.text())
def test_no_two_wishes_are_joined_into_one_key(path, server, other_path, other_server):
    first = identify("k", SMALL, session(path), {"JUPYTERHUB_SERVER_NAME": server})
    second = identify("k", SMALL, session(other_path), {"JUPYTERHUB_SERVER_NAME": other_server})
    if "\0" not in path + server + other_path + other_server:
        assert (first.key == second.key) == ((path, server) == (other_path, other_server))

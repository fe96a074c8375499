"""The JSON that pages of other versions read, and the types that TypeScript has of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from gpu_kernels import offer
from gpu_kernels.offer import Offer, Offers
from gpu_kernels.provisioner.attachment import View
from gpu_kernels.provisioner.snapshot import Use, snapshot
from gpu_kernels.resources import lab, typescript
from gpu_kernels.resources.base import Resource
from gpu_kernels.server.handlers import message
from tests.pool.test_resources import LEASE

pytestmark = pytest.mark.quick

GENERATED = Path(__file__).parents[2] / "gpu_kernels" / "labextension" / "src" / "resources.ts"
TEXT = "Waiting for 0.1 V100: “busy” </b>."
ATTACHED = {
    "id": "k", "changes": 4, "state": "attached", "size": "0.02 V100", "device": "software",
    "course": "ml101", "lease": "f00", "used_mib": 10, "total_mib": 655, "utilisation": 12.5,
    "ends_in": None, "ends_why": "class", "position": 2, "starts_in": 90.5,
    "wanted": {"size": "0.1 V100", "position": 2, "starts_in": 90.5, "since": 3.2, "text": TEXT},
    "declined": "No.", "lost": False, "text": "No.", "sizes": ["0.02 V100", "0.1 V100"],
}  # fmt: skip
RELEASED = {
    "id": "k", "changes": 4, "state": "released", "size": "0.02 V100", "device": None,
    "course": "ml101", "lease": None, "used_mib": None, "total_mib": None, "utilisation": None,
    "ends_in": None, "ends_why": None, "position": None, "starts_in": None, "wanted": None,
    "declined": None, "lost": True, "text": "Given back.", "sizes": ["0.02 V100", "0.1 V100"],
}  # fmt: skip
PLACE = lab.Place("0.1 V100", 2, 90.5, 3.2, TEXT)
VIEWS = {
    "attached": (
        View("attached", "0.02 V100", "ml101", LEASE, PLACE, "Charged to ml101.", declined="No."),
        ATTACHED,
    ),
    "released": (
        View("released", "0.02 V100", "ml101", None, None, "Given back.", lost=True),
        RELEASED,
    ),
}


@pytest.mark.parametrize("state", VIEWS)
def test_a_kernels_slice_is_told_as_in_the_first_release(monkeypatch, state):
    known = Offers()
    known._offer = Offer("ml101", ("0.02 V100", "0.1 V100"), ())
    known._thread = object()
    monkeypatch.setattr(offer, "OFFERS", known)
    view, json_v1 = VIEWS[state]
    use = Use("f00", 10, 655, 12.5, None, "class", 0.0, 0.0)
    attachment = SimpleNamespace(kernel_id="k", changes=4, use=use, view=lambda: view)
    told = snapshot(attachment)
    # The order too, and nothing else: pages of an older server stay open while it is exchanged.
    assert list(json.loads(msgspec.json.encode(told)).items()) == list(json_v1.items())
    assert msgspec.convert(json_v1, lab.KernelSlice) == told


def test_an_event_is_one_line_of_data_however_many_its_text_has():
    slice_ = msgspec.convert({**RELEASED, "text": "Given back.\n\nevent: gone\r\u2028"}, lab.KernelSlice)
    name, data, *rest = message(slice_).split("\n")
    assert (name, rest) == ("event: slice", ["", ""])
    assert json.loads(data.removeprefix("data: "))["text"] == slice_.text
    assert message(lab.Gone("k")) == 'event: gone\ndata: {"id":"k"}\n\n'
    assert message(lab.KernelIds(("k", "l"))) == 'event: kernels\ndata: {"ids":["k","l"]}\n\n'


def test_typescript_has_the_types_that_python_has():
    assert GENERATED.read_text() == typescript.module(), (
        "run: python -m gpu_kernels.resources.typescript gpu_kernels/labextension/src/resources.ts"
    )


def test_a_field_without_a_counterpart_in_typescript_is_refused(monkeypatch):
    class Odd(Resource, frozen=True):
        """Has a field that may be anything."""

        labels: dict[str, str]

    class Partial(Resource, frozen=True):
        """Has a field that may be left out."""

        mood: str | msgspec.UnsetType = msgspec.UNSET

    for kind, named in ((Odd, "DictType"), (Partial, "Partial.mood")):
        monkeypatch.setattr(typescript, "ANSWERS", (kind,))
        with pytest.raises(TypeError, match=named):
            typescript.module()

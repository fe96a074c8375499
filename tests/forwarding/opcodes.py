"""The numbers of the calls that client and worker make by hand, as wire/protocol.h gives them."""

from __future__ import annotations

import functools
import re

from tests.native_build import ROOT


@functools.cache
def handmade() -> dict[str, int]:
    """By name, without its ``kOp``."""
    text = (ROOT / "remoting/native/wire/protocol.h").read_text()
    body = re.search(r"enum Opcode : uint16_t \{(.*?)\};", text, re.DOTALL)
    assert body
    found = {name: int(number) for name, number in re.findall(r"kOp(\w+) = (\d+),", body[1])}
    del found["Invalid"]
    assert len(found) == body[1].count(" = ") - 2  # kOpInvalid and kFirstGenerated
    return found

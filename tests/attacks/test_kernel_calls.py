"""Calls that no compiler makes: of kernels, and of functions that another input has replaced."""

from __future__ import annotations

import numpy as np
import pytest

from tests.softgpu.bench import Device, LaunchError, LinkError, Status
from tests.softgpu.engine.elementwise import HEAD

REPLACED = f"""{HEAD}
.weak .func (.param .b32 r) which() {{ .reg .b32 %r<2>; mov.u32 %r1, 1; st.param.b32 [r], %r1; ret; }}
.global .u64 pointer = which;
"""
REPLACEMENT = f"""{HEAD}
.visible .func (.param .b32 r) which() {{ .reg .b32 %r<2>; mov.u32 %r1, 2; st.param.b32 [r], %r1; ret; }}
"""


def test_a_kernel_cannot_be_called(device: Device) -> None:
    """Its parameters are not laid out as a function's: they would be written over the caller's registers."""
    text = f"""{HEAD}
    .visible .entry victim(.param .align 8 .b8 p[4000]) {{ ret; }}
    .visible .entry k() {{
        .param .align 8 .b8 p[4000];
        call victim, (p);
        ret;
    }}"""
    with pytest.raises((LinkError, LaunchError)) as failed:
        device.load(text)(name="k")
    assert isinstance(failed.value, LinkError) or failed.value.status == Status.INVALID_PC


def call_by_number(number: int) -> str:
    """A kernel that calls the function of this number through a pointer."""
    return f"""{HEAD}
    .visible .entry k(.param .u64 out) {{
        .reg .b64 %rd<4>; .reg .b32 %r<4>;
        mov.u64 %rd1, {(4 << 56) + number};
        {{
        .param .b32 r;
        proto: .callprototype (.param .b32 _) _ ();
        call (r), %rd1, (), proto;
        ld.param.b32 %r1, [r];
        }}
        ld.param.u64 %rd2, [out]; st.global.u32 [%rd2], %r1;
        ret;
    }}"""


def test_the_pointer_of_a_replacement_is_called(device: Device) -> None:
    out = device.buffer(np.zeros(1, np.uint32))
    device.load(REPLACED, REPLACEMENT, call_by_number(1))(out, name="k")
    assert out.get()[0] == 2


@pytest.mark.parametrize("number", [0, 2, 3, 4, 1 << 20])
def test_a_pointer_to_a_function_that_was_replaced_is_none(device: Device, number: int) -> None:
    """Nor is one to a kernel, or to a function that there never was."""
    module = device.load(REPLACED, REPLACEMENT, call_by_number(number))
    with pytest.raises(LaunchError) as failed:
        module(device.buffer(np.zeros(1, np.uint32)), name="k")
    assert failed.value.status == Status.INVALID_PC


def test_an_alias_of_a_function_that_was_replaced_does_not_run_what_is_not_there(device: Device) -> None:
    aliased = REPLACED + ".alias also, which;\n"
    text = f"""{HEAD}
    .extern .func (.param .b32 r) also();
    .visible .entry k(.param .u64 out) {{
        .reg .b64 %rd<4>; .reg .b32 %r<4>;
        {{ .param .b32 r; call (r), also, (); ld.param.b32 %r1, [r]; }}
        ld.param.u64 %rd2, [out]; st.global.u32 [%rd2], %r1;
        ret;
    }}"""
    module = device.load(aliased, REPLACEMENT, text)
    with pytest.raises(LaunchError) as failed:
        module(device.buffer(np.zeros(1, np.uint32)), name="k")
    assert failed.value.status == Status.INVALID_PC

"""PTX of what the programs of these tests launch."""

from __future__ import annotations

# bump(x, n): adds one to each of n words. spin(): never ends. wild(): writes where nothing is.
TEXT = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry bump(.param .u64 x, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<3>;
    ld.param.u64 %d1, [x]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1; @%p ret;
    mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;
    ld.global.u32 %r5, [%d1]; add.u32 %r5, %r5, 1; st.global.u32 [%d1], %r5;
    ret;
}
.visible .entry spin() { again: bra again; }
.visible .entry wild() {
    .reg .b64 %d<2>;
    mov.u64 %d1, 0x123400; st.global.u32 [%d1], 1;
    ret;
}
"""

"""PTX of kernels that print, assert and fault; for programs of the tests."""

from __future__ import annotations

HEAD = ".version 8.0\n.target sm_75\n.address_size 64\n"

# print(n): thread t of block b prints "b t n\n", in any order of blocks and warps.
PRINT = """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 format[10] = {37, 117, 32, 37, 117, 32, 37, 117, 10, 0};
.visible .entry print(.param .u32 n) {
    .local .align 8 .b8 room[16];
    .reg .b32 %r<5>; .reg .b64 %d<5>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; ld.param.u32 %r3, [n];
    mov.u64 %d1, room; cvta.local.u64 %d2, %d1;
    st.local.u32 [room], %r1; st.local.u32 [room+4], %r2; st.local.u32 [room+8], %r3;
    mov.u64 %d3, format; cvta.global.u64 %d4, %d3;
    {
    .param .b64 f; .param .b64 a; .param .b32 r;
    st.param.b64 [f], %d4; st.param.b64 [a], %d2;
    call.uni (r), vprintf, (f, a);
    }
    ret;
}
"""

# fail(): assert fails in thread 3 of block 1, at "demo.cu:7", in "fail".
ASSERT = """
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .align 1 .b8 message[6] = {120, 32, 62, 32, 49, 0};
.global .align 1 .b8 file[8] = {100, 101, 109, 111, 46, 99, 117, 0};
.global .align 1 .b8 name[5] = {102, 97, 105, 108, 0};
.visible .entry fail() {
    .reg .b32 %r<5>; .reg .b64 %d<9>; .reg .pred %p<3>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
    setp.ne.u32 %p1, %r1, 1; @%p1 ret;
    setp.ne.u32 %p2, %r2, 3; @%p2 ret;
    mov.u64 %d1, message; cvta.global.u64 %d2, %d1;
    mov.u64 %d3, file; cvta.global.u64 %d4, %d3;
    mov.u64 %d5, name; cvta.global.u64 %d6, %d5;
    {
    .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 n; .param .b64 c;
    st.param.b64 [m], %d2; st.param.b64 [f], %d4; st.param.b32 [l], 7; st.param.b64 [n], %d6;
    st.param.b64 [c], 1;
    call.uni __assertfail, (m, f, l, n, c);
    }
    ret;
}
"""

# wild(x): thread 5 writes far behind x.
WILD = """
.visible .entry wild(.param .u64 x) {
    .reg .b32 %r<3>; .reg .b64 %d<4>; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 5; @%p1 ret;
    ld.param.u64 %d1, [x];
    st.global.u32 [%d1+1073741824], %r1;
    ret;
}
"""

# spin(): never ends.
SPIN = ".visible .entry spin() { again: bra again; }\n"

ALL = HEAD + PRINT + ASSERT + WILD + SPIN

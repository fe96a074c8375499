"""PTX texts for the tests."""

HEADER = """
.version 8.0
.target sm_75
.address_size 64
"""

# fill(u32* to, u32 value, u32 count): to[i] = value + i
FILL = """
.visible .entry fill(.param .u64 to, .param .u32 value, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [value];
    ld.param.u32 %r2, [count];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r3, %r3, %r4, %r5;
    setp.ge.u32 %p, %r3, %r2;
    @%p bra done;
    mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd3, %rd1, %rd2;
    add.u32 %r1, %r1, %r3;
    st.global.u32 [%rd3], %r1;
done:
    ret;
}
"""

# Writes far outside of everything.
WILD = """
.visible .entry wild()
{
    .reg .b64 %rd<2>;
    mov.u64 %rd1, 0x123400;
    st.global.u32 [%rd1], 1;
    ret;
}
"""

# Never ends by itself.
SPIN = """
.visible .entry spin()
{
again:
    bra again;
}
"""

# Parameters of several sizes, dynamic and static shared memory, a launch bound.
SHAPES = """
.extern .shared .align 8 .b8 dynamic[];
.visible .global .align 4 .u32 counter = 7;
.visible .const .align 8 .u64 fixed = 11;
.visible .entry mixed(.param .u8 a, .param .u64 b, .param .f32 c, .param .align 16 .b8 d[24])
{
    ret;
}
.visible .entry none()
{
    ret;
}
.visible .entry bounded() .maxntid 64, 1, 1
{
    .shared .align 4 .b8 fixed_size[1024];
    .reg .b32 %r<2>;
    mov.u32 %r1, fixed_size;
    st.shared.u32 [%r1], %r1;
    ret;
}
.visible .entry bump()
{
    .reg .b32 %r<2>;
    ld.global.u32 %r1, [counter];
    add.u32 %r1, %r1, 1;
    st.global.u32 [counter], %r1;
    ret;
}
.visible .entry needs_shared(.param .u64 to)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    mov.u32 %r1, dynamic;
    st.shared.u32 [%r1+40000], 5;
    ld.shared.u32 %r2, [%r1+40000];
    ld.param.u64 %rd1, [to];
    st.global.u32 [%rd1], %r2;
    ret;
}
"""

# Two inputs of a link: `twice` calls what `doubler` defines.
CALLER = (
    HEADER
    + """
.extern .func (.param .b32 result) doubled(.param .b32 x);
.visible .entry twice(.param .u64 to, .param .u32 x)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .param .b32 given;
    .param .b32 got;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [x];
    st.param.b32 [given], %r1;
    call (got), doubled, (given);
    ld.param.b32 %r2, [got];
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
)
DOUBLER = (
    HEADER
    + """
.visible .func (.param .b32 result) doubled(.param .b32 x)
{
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [x];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
"""
)

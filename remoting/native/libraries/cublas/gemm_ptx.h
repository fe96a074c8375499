// The product of two matrices as a kernel: a thread for each element of C = alpha * A * B + beta * C, a layer of blocks
// for each product of a batch. A transposed operand is one whose strides are exchanged.
#pragma once

// clang-format off
// `bytes` is the size of an element in memory, `real` that of the sums.
#define CUBLAS_GEMM_PTX(name, bytes, real, zero, load, put)                                                        \
    ".visible .entry " name "(.param .u64 m, .param .u64 n, .param .u64 k,\n"                                             \
    "  .param .u64 a, .param .s64 a_row, .param .s64 a_column, .param .s64 a_layer,\n"                                    \
    "  .param .u64 b, .param .s64 b_row, .param .s64 b_column, .param .s64 b_layer,\n"                                    \
    "  .param .u64 c, .param .s64 c_row, .param .s64 c_column, .param .s64 c_layer,\n"                                    \
    "  .param ." real " alpha, .param ." real " beta) {\n"                                                                \
    ".reg .pred %out, %end, %keep;\n.reg .b16 %h;\n.reg .u32 %x<4>;\n"                                                    \
    ".reg .s64 %i, %j, %l, %m, %n, %k, %s, %step_a, %step_b, %t;\n.reg .u64 %a, %b, %c;\n"                                \
    ".reg ." real " %sum, %p, %q, %alpha, %beta;\n"                                                                       \
    "mov.u32 %x0, %ctaid.x; mov.u32 %x1, %ntid.x; mov.u32 %x2, %tid.x; mov.u32 %x3, %ctaid.y;\n"                          \
    "mul.wide.u32 %t, %x0, %x1; cvt.u64.u32 %i, %x2; add.s64 %t, %t, %i; cvt.u64.u32 %l, %x3;\n"                          \
    "ld.param.u64 %m, [m]; ld.param.u64 %n, [n]; ld.param.u64 %k, [k];\n"                                                 \
    "mul.lo.s64 %s, %m, %n; setp.ge.u64 %out, %t, %s; @%out ret;\n"                                                       \
    "rem.u64 %i, %t, %m; div.u64 %j, %t, %m;\n"                                                                           \
    "ld.param.u64 %a, [a]; ld.param.s64 %s, [a_layer]; mul.lo.s64 %t, %s, %l;\n"                                          \
    "ld.param.s64 %s, [a_row]; mad.lo.s64 %t, %s, %i, %t; mad.lo.s64 %a, %t, " bytes ", %a;\n"                            \
    "ld.param.s64 %s, [a_column]; mul.lo.s64 %step_a, %s, " bytes ";\n"                                                   \
    "ld.param.u64 %b, [b]; ld.param.s64 %s, [b_layer]; mul.lo.s64 %t, %s, %l;\n"                                          \
    "ld.param.s64 %s, [b_column]; mad.lo.s64 %t, %s, %j, %t; mad.lo.s64 %b, %t, " bytes ", %b;\n"                         \
    "ld.param.s64 %s, [b_row]; mul.lo.s64 %step_b, %s, " bytes ";\n"                                                      \
    "ld.param.u64 %c, [c]; ld.param.s64 %s, [c_layer]; mul.lo.s64 %t, %s, %l;\n"                                          \
    "ld.param.s64 %s, [c_row]; mad.lo.s64 %t, %s, %i, %t;\n"                                                              \
    "ld.param.s64 %s, [c_column]; mad.lo.s64 %t, %s, %j, %t; mad.lo.s64 %c, %t, " bytes ", %c;\n"                         \
    "ld.param." real " %alpha, [alpha]; ld.param." real " %beta, [beta]; mov." real " %sum, " zero ";\n"                  \
    "again: setp.eq.u64 %end, %k, 0; @%end bra done;\n"                                                                   \
    load("%p", "%a") load("%q", "%b")                                                                                     \
    "fma.rn." real " %sum, %p, %q, %sum;\n"                                                                               \
    "add.s64 %a, %a, %step_a; add.s64 %b, %b, %step_b; sub.s64 %k, %k, 1; bra again;\n"                                   \
    "done: mul." real " %sum, %sum, %alpha; setp.neu." real " %keep, %beta, " zero "; @!%keep bra store;\n"               \
    load("%p", "%c")                                                                                                      \
    "fma.rn." real " %sum, %p, %beta, %sum;\n"                                                                            \
    "store:\n" put("%c", "%sum")                                                                                          \
    "ret; }\n"

#define CUBLAS_LOAD_F32(to, at) "ld.global.f32 " to ", [" at "];\n"
#define CUBLAS_PUT_F32(at, value) "st.global.f32 [" at "], " value ";\n"
#define CUBLAS_LOAD_F64(to, at) "ld.global.f64 " to ", [" at "];\n"
#define CUBLAS_PUT_F64(at, value) "st.global.f64 [" at "], " value ";\n"
#define CUBLAS_LOAD_F16(to, at) "ld.global.b16 %h, [" at "]; cvt.f32.f16 " to ", %h;\n"
#define CUBLAS_PUT_F16(at, value) "cvt.rn.f16.f32 %h, " value "; st.global.b16 [" at "], %h;\n"

namespace cublas {

inline constexpr char kGemmPtx[] =
    ".version 6.4\n.target sm_60\n.address_size 64\n"
    CUBLAS_GEMM_PTX("gemm_f32", "4", "f32", "0f00000000", CUBLAS_LOAD_F32, CUBLAS_PUT_F32)
    CUBLAS_GEMM_PTX("gemm_f64", "8", "f64", "0d0000000000000000", CUBLAS_LOAD_F64, CUBLAS_PUT_F64)
    CUBLAS_GEMM_PTX("gemm_f16", "2", "f32", "0f00000000", CUBLAS_LOAD_F16, CUBLAS_PUT_F16);

}  // namespace cublas
// clang-format on

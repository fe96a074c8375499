"""cuBLASLt's products as programs ask for them: ``lt_results.py GROUP LIBRARY`` prints as JSON how far each
is from NumPy, by what was asked for."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterator

import numpy as np

from tests.libraries.lt import (
    BIAS,
    BIAS_GRADIENT,
    BIAS_POINTER,
    BIAS_STRIDE,
    BIAS_TYPE,
    BY_COLUMNS,
    BY_ROWS,
    EPILOGUE,
    GELU,
    GELU_BACK,
    GRADIENT_A,
    GRADIENT_B,
    KEPT,
    KEPT_LEAD,
    KEPT_POINTER,
    KEPT_STRIDE,
    OP_A,
    OP_B,
    POINTER_MODE,
    RELU,
    RELU_BACK,
    TRANSFORM_A,
    TRANSFORM_B,
    TRANSFORM_MODE,
    TYPES,
    Lt,
    Matrix,
    scalars_of,
)
from tests.libraries.on_device import (
    OnDevice,
    Value,
    apart,
    numbers,
    operated,
    pointer,
    random,
    start,
    worst_of,
)

Found = Iterator[tuple[str, float]]
FORWARD = (BIAS, *(kind | kept | bias for kind in (RELU, GELU) for kept in (0, KEPT) for bias in (0, BIAS)))


def batch_of(kind: str, batch: int, rows: int, columns: int) -> np.ndarray:
    if kind in ("int8", "int32"):
        return numbers.integers(-100, 100, (batch, rows, columns)).astype(kind)
    return np.stack([random(kind, rows, columns) for _ in range(batch)])


def wide(values: np.ndarray) -> np.ndarray:
    return values.astype("complex128" if values.dtype.kind == "c" else "float64")


def factor(kind: str, op: int, batch: int, rows: int, columns: int, order: int, gap: int) -> Matrix:
    shape = (columns, rows) if op else (rows, columns)
    return Matrix(batch_of(kind, batch, *shape), order, gap)


def of_each(values: np.ndarray, op: int) -> np.ndarray:
    return np.stack([operated(one, op) for one in wide(values)])


def products(lt: Lt) -> Found:
    """Types, operations, orders, batches, gaps, in place and beside."""
    results = {"float16": ("float16", "float32"), "int8": ("int32",)}
    for kind in ("float32", "float64", "complex64", "complex128", "float16", "int8"):
        ops = (0, 1, 2) if kind.startswith("complex") else (0, 1)
        orders = itertools.product((BY_COLUMNS, BY_ROWS), repeat=3)
        for number, (order_a, order_b, order_d) in enumerate(orders):
            for op_a, op_b in itertools.product(ops, ops):
                if kind.startswith("complex") and (
                    (op_a == 2 and order_a != order_d) or (op_b == 2 and order_b != order_d)
                ):
                    continue
                batch, m, n, k = (1, 7, 5, 6) if number % 2 else (3, 4, 9, 11)
                gap = 3 * (number % 3)
                for result in results.get(kind, (kind,)):
                    a = factor(kind, op_a, batch, m, k, order_a, gap)
                    b = factor(kind, op_b, batch, k, n, order_b, 0)
                    c = Matrix(batch_of(result, batch, m, n), order_d, gap)
                    d = c if number % 2 else Matrix(np.zeros_like(c.values), order_d, 1)
                    whole = kind == "int8"
                    alpha, beta = (2, -3) if whole else (1.5, -0.5)
                    scalars = tuple(Value(value, scalars_of(kind)) for value in (alpha, beta))
                    attributes = {OP_A: op_a, OP_B: op_b}
                    assert lt.matmul(kind, attributes, scalars, a, b, c, d) == 0
                    product = alpha * of_each(a.values, op_a) @ of_each(b.values, op_b)
                    yield f"{kind}-{result}", apart(d.get(), product + beta * wide(c.values))


def large(lt: Lt) -> Found:
    """Beyond a block, and more than one of them."""
    for kind in ("float32", "float16"):
        a, b = (factor(kind, 0, 1, 300, 300, BY_COLUMNS, 0) for _ in range(2))
        d, bias = Matrix(np.zeros((1, 300, 300), kind)), random("float32", 300)
        on = OnDevice(bias)
        attributes = {EPILOGUE: BIAS | RELU, BIAS_POINTER: int(on.address), BIAS_TYPE: TYPES["float32"]}
        one, zero = Value(1, "float32"), Value(0, "float32")
        assert lt.matmul(kind, attributes, (one, zero), a, b, d, d) == 0
        wanted = np.maximum(wide(a.values) @ wide(b.values) + bias[:, None], 0)
        yield f"{kind}-{kind}", apart(d.get(), wanted)


def gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_slope(x: np.ndarray) -> np.ndarray:
    return (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6


def bits_of(mask: np.ndarray, lead: int) -> np.ndarray:
    """Of a batch of matrices, by columns that are `lead` bits apart."""
    batch, rows, columns = mask.shape
    bits = np.zeros((batch, columns, lead), bool)
    bits[:, :, :rows] = mask.transpose(0, 2, 1)
    return np.packbits(bits.reshape(-1), bitorder="little")


def forward(lt: Lt) -> Found:
    """Bias, ReLU and GELU, alone and together, and what they keep."""
    batch, m, n, k = 2, 13, 5, 7
    for kind, order in itertools.product(("float32", "float64", "float16"), (BY_COLUMNS, BY_ROWS)):
        for epilogue in FORWARD:
            if epilogue & KEPT and order == BY_ROWS:
                continue
            a, b = factor(kind, 1, batch, m, k, BY_COLUMNS, 1), factor(kind, 0, batch, k, n, BY_COLUMNS, 0)
            d = Matrix(np.zeros((batch, m, n), kind), order, 2)
            bias = batch_of(kind, batch, m, 1)
            on = OnDevice(np.ascontiguousarray(bias).reshape(-1))
            lead = 128 if epilogue & RELU else 16
            bytes_ = lead // 8 if epilogue & RELU else lead * d.values.itemsize
            kept = OnDevice(np.zeros(bytes_ * n * batch, "uint8"))
            attributes = {OP_A: 1, EPILOGUE: epilogue, BIAS_POINTER: int(on.address), BIAS_STRIDE: m}
            if epilogue & KEPT:
                attributes |= {KEPT_POINTER: int(kept.address), KEPT_LEAD: lead, KEPT_STRIDE: lead * n}
            one, zero = (Value(value, scalars_of(kind)) for value in (1, 0))
            assert lt.matmul(kind, attributes, (one, zero), a, b, d, d) == 0
            before = of_each(a.values, 1) @ wide(b.values) + (wide(bias) if epilogue & BIAS else 0)
            after = np.maximum(before, 0) if epilogue & RELU else gelu(before) if epilogue & GELU else before
            yield f"{kind}-{epilogue}", apart(d.get(), after)
            if epilogue & KEPT and epilogue & RELU:
                yield f"{kind}-{epilogue}-kept", float((kept.get() != bits_of(d.get() > 0, lead)).sum())
            elif epilogue & KEPT:
                parts = kept.get().view(kind).reshape(batch, n, lead)[:, :, :m].transpose(0, 2, 1)
                yield f"{kind}-{epilogue}-kept", apart(parts, before)


def backward(lt: Lt) -> Found:
    """The slopes of ReLU and GELU, and the gradients of biases."""
    batch, m, n, k = 2, 11, 6, 9
    for kind in ("float32", "float64", "float16"):
        for epilogue in (RELU_BACK, GELU_BACK):
            for gradient in (0, BIAS_GRADIENT):
                a, b = (
                    factor(kind, 0, batch, m, k, BY_COLUMNS, 0),
                    factor(kind, 0, batch, k, n, BY_COLUMNS, 2),
                )
                d = Matrix(np.zeros((batch, m, n), kind), BY_COLUMNS, 1)
                inputs = batch_of(kind, batch, m, n)
                lead = 128 if epilogue == RELU_BACK else 16
                held = np.zeros((batch, n, lead), kind)
                held[:, :, :m] = inputs.transpose(0, 2, 1)
                kept = OnDevice(bits_of(inputs > 0, lead) if epilogue == RELU_BACK else held)
                sums = OnDevice(np.zeros(batch * m, kind))
                attributes = {EPILOGUE: epilogue | KEPT | gradient, KEPT_POINTER: int(kept.address)}
                attributes |= {KEPT_LEAD: lead, KEPT_STRIDE: lead * n}
                if gradient:
                    attributes |= {BIAS_POINTER: int(sums.address), BIAS_STRIDE: m}
                one, zero = (Value(value, scalars_of(kind)) for value in (1, 0))
                assert lt.matmul(kind, attributes, (one, zero), a, b, d, d) == 0
                slope = wide(inputs > 0) if epilogue == RELU_BACK else gelu_slope(wide(inputs))
                wanted = wide(a.values) @ wide(b.values) * slope
                yield f"{kind}-{epilogue}", apart(d.get(), wanted)
                if gradient:
                    yield f"{kind}-{epilogue}-sums", apart(sums.get().reshape(batch, m), wanted.sum(2))
        for epilogue, op in itertools.product((GRADIENT_A, GRADIENT_B), (0, 1)):
            a = factor(kind, op, batch, m, k, BY_COLUMNS, 1)
            b = factor(kind, op, batch, k, n, BY_COLUMNS, 0)
            d = Matrix(np.zeros((batch, m, n), kind))
            count = m if epilogue == GRADIENT_A else n
            sums = OnDevice(np.zeros(batch * count, kind))
            attributes = {EPILOGUE: epilogue, BIAS_POINTER: int(sums.address), BIAS_STRIDE: count}
            one, zero = (Value(value, scalars_of(kind)) for value in (1, 0))
            assert lt.matmul(kind, attributes | {OP_A: op, OP_B: op}, (one, zero), a, b, d, d) == 0
            left, right = of_each(a.values, op), of_each(b.values, op)
            yield f"{kind}-{epilogue}", apart(d.get(), left @ right)
            wanted = left.sum(2) if epilogue == GRADIENT_A else right.sum(1)
            yield f"{kind}-{epilogue}-sums", apart(sums.get().reshape(batch, count), wanted)


def many_sums(lt: Lt) -> Found:
    """More sums than are done at a time; and of integers."""
    rows, k = 70_000, 3
    a, b = factor("float32", 0, 1, rows, k, BY_COLUMNS, 0), factor("float32", 0, 1, k, 1, BY_COLUMNS, 0)
    sums = OnDevice(np.zeros(rows, "float32"))
    d = Matrix(np.zeros((1, rows, 1), "float32"))
    one, zero = Value(1, "float32"), Value(0, "float32")
    attributes = {EPILOGUE: GRADIENT_A, BIAS_POINTER: int(sums.address)}
    assert lt.matmul("float32", attributes, (one, zero), a, b, d, d) == 0
    yield "float32-float32", apart(sums.get(), wide(a.values).sum(2)[0])
    a, b = Matrix(np.full((1, 4, 8), 3, "int8")), Matrix(np.ones((1, 8, 4), "int8"))
    d = Matrix(np.zeros((1, 4, 4), "float32"))
    assert lt.matmul("float32", attributes, (one, zero), a, b, d, d) == 0
    yield "float32-int8", apart(d.get(), np.full((1, 4, 4), 24.0))
    yield "float32-int8-sums", apart(sums.get()[:4], np.full(4, 24.0))


def scalars_of_the_device(lt: Lt) -> Found:
    a, b, c = (factor("float64", 0, 1, 5, 5, BY_COLUMNS, 0) for _ in range(3))
    alpha, beta = OnDevice(np.array([2.0])), OnDevice(np.array([-1.0]))
    scalars = (pointer(alpha), pointer(beta))
    assert lt.matmul("float64", {POINTER_MODE: 1}, scalars, a, b, c, c) == 0
    yield "float64-float64", apart(c.get(), 2 * a.values @ b.values - c.values)


def transforms(lt: Lt) -> Found:
    """Sums of matrices in all orders, operations and types, with one matrix and with two."""
    kinds = (
        ("float32", "float32"),
        ("float64", "float64"),
        ("complex64", "complex64"),
        ("float16", "float32"),
    )
    for (kind, scale), orders in itertools.product(kinds, itertools.product((0, 1), repeat=3)):
        for ops in itertools.product((0, 1, 2), repeat=2):
            shapes = [(4, 7) if op == 0 else (7, 4) for op in ops]
            a, b = (
                Matrix(batch_of(kind, 2, *shape), order, 2)
                for shape, order in zip(shapes, orders, strict=False)
            )
            c = Matrix(np.zeros((2, 4, 7), kind), orders[2], 1)
            made = lt.make("MatrixTransformDesc", TYPES[scale])
            assert lt.set("MatrixTransformDesc", made, TRANSFORM_A, ops[0]) == 0
            assert lt.set("MatrixTransformDesc", made, TRANSFORM_B, ops[1]) == 0
            alpha, beta = Value(2, scale), Value(-1, scale)
            layouts = [lt.layout(each) for each in (a, b, c)]
            for second in (True, False):
                done = lt.library.cublasLtMatrixTransform(
                    *(lt.handle, made, alpha.pointer(), a.pointer, layouts[0], beta.pointer()),
                    *(b.pointer if second else None, layouts[1] if second else None),
                    *(c.pointer, layouts[2], None),
                )
                assert done == 0
                wanted = 2 * of_each(a.values, ops[0]) - (of_each(b.values, ops[1]) if second else 0)
                yield kind, apart(c.get(), wanted)
            on = OnDevice(np.array([1, 1], scale))
            assert lt.set("MatrixTransformDesc", made, TRANSFORM_MODE, 1) == 0
            done = lt.library.cublasLtMatrixTransform(
                *(lt.handle, made, pointer(on), a.pointer, layouts[0], pointer(on), b.pointer, layouts[1]),
                *(c.pointer, layouts[2], None),
            )
            assert done == 0
            yield kind, apart(c.get(), of_each(a.values, ops[0]) + of_each(b.values, ops[1]))


GROUPS = {
    each.__name__: each
    for each in (products, large, forward, backward, many_sums, scalars_of_the_device, transforms)
}


def main(group: str, library: str) -> None:
    start()
    print(json.dumps(worst_of(GROUPS[group](Lt(library)))))


if __name__ == "__main__":
    main(*sys.argv[1:])

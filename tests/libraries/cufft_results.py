"""Transforms by cuFFT as programs call it: ``cufft_results.py GROUP LIBRARY`` prints as JSON how far each
is from NumPy's, by what was tried."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from tests.libraries.on_device import OnDevice, start, worst_of
from tests.libraries.transforms import (
    FORWARD,
    INVERSE,
    KINDS,
    Cufft,
    Layout,
    at,
    dense,
    far,
    ints,
    long,
    model,
    random,
    shapes,
)

fft = Cufft(sys.argv[2])
Result = Iterator[tuple[str, float]]


def run(kind: str, n: Sequence[int], plan: int, layouts: tuple[Layout, Layout], batch: int = 1) -> float:
    """Both directions where there are two; what lies between the elements must stay."""
    _, read, written = KINDS[kind]
    worst = 0.0
    for direction in (FORWARD, INVERSE) if kind in ("C2C", "Z2Z") else (FORWARD,):
        before, after = shapes(kind, n)
        given = random(read, layouts[0].elements(before, batch))
        kept = random(written, layouts[1].elements(after, batch))
        source, target = OnDevice(given), OnDevice(kept)
        fft.execute(kind, plan, source, target, direction)
        result = target.get()
        wanted = kept.copy()
        expected = model(kind, n, layouts[0].view(given, before, batch), direction)
        layouts[1].view(wanted, after, batch)[...] = expected
        assert np.array_equal(source.get(), given), "the input was changed"
        worst = float(np.maximum(worst, far(result, wanted)))
    return worst


def dimensions() -> Result:
    """Plans of one, two and three dimensions, of all kinds."""
    for kind, (number, *_) in KINDS.items():
        for n in (1, 2, 3, 16, 30, 97, 1000, 2310):
            for batch in (1, 3):
                lists = shapes(kind, [n])
                plan = fft.plan("cufftPlan1d", n, number, batch)
                yield f"{kind} 1d", run(kind, [n], plan, (dense(lists[0]), dense(lists[1])), batch)
                fft("cufftDestroy", plan)
        for sizes in ((4, 6), (5, 7), (1, 9), (32, 33)):
            before, after = shapes(kind, sizes)
            plan = fft.plan("cufftPlan2d", *sizes, number)
            yield f"{kind} 2d", run(kind, sizes, plan, (dense(before), dense(after)))
        for sizes3 in ((4, 3, 6), (2, 5, 7), (8, 1, 9)):
            before, after = shapes(kind, sizes3)
            plan = fft.plan("cufftPlan3d", *sizes3, number)
            yield f"{kind} 3d", run(kind, sizes3, plan, (dense(before), dense(after)))


LAYOUTS = (
    ((8,), Layout((8,), 3, 30), Layout((8,), 2, 25)),
    ((8,), Layout((8,), 4, 1), Layout((8,), 4, 1)),
    ((6, 5), Layout((9, 8), 2, 200), Layout((6, 7), 1, 50)),
    ((3, 4, 5), Layout((3, 6, 7), 1, 150), Layout((5, 4, 9), 2, 400)),
)


def layouts() -> Result:
    """Elements, rows and batches with gaps between them, and interleaved; integers of 32 and 64 bits."""
    for kind, (number, *_) in KINDS.items():
        for n, before, after in LAYOUTS:
            last = [before.embed, before.stride, before.distance, after.embed, after.stride, after.distance]
            arguments = [ints(value) if isinstance(value, tuple) else value for value in last]
            wide = [ints(value, long) if isinstance(value, tuple) else long(value) for value in last]
            plan = fft.plan("cufftPlanMany", len(n), ints(n), *arguments, number, 4)
            yield f"{kind} many", run(kind, n, plan, (before, after), 4)
            plan, size = fft.create(), ctypes.c_size_t()
            fft(
                "cufftMakePlanMany64", plan, len(n), ints(n, long), *wide, number, long(4), ctypes.byref(size)
            )
            yield f"{kind} many64", run(kind, n, plan, (before, after), 4)


def in_place() -> Result:
    """Real rows in place have room for the complex ones, whether the plan says so or not."""
    for kind, (number, read, written) in KINDS.items():
        for n in ((16,), (7,), (6, 8), (4, 5), (2, 3, 6), (3, 2, 5)):
            before, after = shapes(kind, n)
            complex_side = after if kind in ("R2C", "D2Z") else before
            wide = (*complex_side[:-1], 2 * complex_side[-1])
            rows = {read: dense(before), written: dense(after)}
            for real in {read, written} & {"float32", "float64"}:
                rows[real] = dense(wide)
            batch = 3
            buffer = random(read, rows[read].elements(before, batch) + 40)
            plan = fft.plan("cufftPlanMany", len(n), ints(n), None, 1, 0, None, 1, 0, number, batch)
            memory = OnDevice(np.concatenate([buffer, buffer]))
            fft.execute(kind, plan, memory, memory, FORWARD)
            result = memory.get().view(written)
            wanted = model(kind, n, rows[read].view(buffer, before, batch), FORWARD)
            yield f"{kind} in place", far(rows[written].view(result, after, batch), wanted)


TYPED = {
    "half": (6, 6, 6, "C2C"),
    "half to complex": (2, 6, 6, "R2C"),
    "half to real": (6, 2, 6, "C2R"),
    "single": (4, 4, 4, "C2C"),
    "single to complex": (0, 4, 4, "R2C"),
    "double to real": (5, 1, 5, "Z2D"),
}


def halves(values: np.ndarray) -> np.ndarray:
    parts = values.astype("complex64").view("float32") if np.iscomplexobj(values) else values
    return parts.astype("float16")


def numbers_of(stored: np.ndarray, is_complex: bool) -> np.ndarray:
    wide = stored.astype("float32")
    return wide.view("complex64") if is_complex else wide


def typed() -> Result:
    """Plans with types as arguments, half precision too."""
    for name, (before_type, after_type, execution, kind) in TYPED.items():
        for n in ((16,), (8, 4)):
            before, after = shapes(kind, n)
            batch, size, plan = 5, ctypes.c_size_t(7), fft.create()
            arguments = [len(n), ints(n, long), None, long(1), long(0), before_type]
            arguments += [None, long(1), long(0), after_type, long(batch), ctypes.byref(size), execution]
            fft("cufftXtMakePlanMany", plan, *arguments)
            assert size.value == 0
            given = random(KINDS[kind][1], batch * int(np.prod(before)))
            room = np.zeros(batch * int(np.prod(after)), KINDS[kind][2])
            is_half = name.startswith("half")
            source, target = (
                OnDevice(halves(given) if is_half else given),
                OnDevice(halves(room) if is_half else room),
            )
            fft("cufftXtExec", plan, at(source), at(target), FORWARD)
            wanted = model(kind, n, given.reshape(batch, *before), FORWARD)
            result = numbers_of(target.get(), np.iscomplexobj(room)) if is_half else target.get()
            yield name, far(result.reshape(wanted.shape), wanted)


def large() -> Result:
    """More than is done at a time, so that batches are parted; and one that is not."""
    for n, batch in ((1 << 12, 1500), (1 << 22, 1)):
        plan = fft.plan("cufftPlan1d", n, KINDS["C2C"][0], batch)
        yield "large", run("C2C", [n], plan, (dense([n]), dense([n])), batch)


GROUPS = {each.__name__: each for each in (dimensions, layouts, in_place, typed, large)}


def main(group: str) -> None:
    print(json.dumps(worst_of(GROUPS[group]())))


if __name__ == "__main__":
    start()
    main(sys.argv[1])

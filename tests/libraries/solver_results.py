"""cuSOLVER's dense functions as programs call them: ``solver_results.py GROUP LIBRARY`` prints as JSON how
far each is from what it is to be, by function."""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.libraries.on_device import (
    LETTERS,
    REAL,
    OnDevice,
    apart,
    batch_of,
    mirrored,
    operated,
    pointer,
    random,
    start,
    triangle,
    worst_of,
)

Found = Iterator[tuple[str, float]]
TYPES = {"float32": 0, "float64": 1, "complex64": 4, "complex128": 5}
GAP = 3  # of leading dimensions


class Solver:
    """A library, a handle of it, and room that no function needs more of than it asks for."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.handle = ctypes.c_void_p()
        assert self.library.cusolverDnCreate(ctypes.byref(self.handle)) == 0
        self.params = ctypes.c_void_p()
        assert self.library.cusolverDnCreateParams(ctypes.byref(self.params)) == 0
        self.room, self.info = OnDevice(np.zeros(64, "uint8")), OnDevice(np.full(64, -77, "int32"))

    def status(self, name: str, *arguments: object) -> int:
        """Arrays on the device by their addresses; a letter is a character."""
        passed = [pointer(a) if isinstance(a, OnDevice) else a for a in arguments]
        passed = [ctypes.c_byte(ord(a)) if isinstance(a, str) else a for a in passed]
        return int(getattr(self.library, f"cusolverDn{name}")(self.handle, *passed))

    def elements(self, name: str, *arguments: object, after: tuple[object, ...] = ()) -> int:
        count = ctypes.c_int(-1)
        assert self.status(f"{name}_bufferSize", *arguments, ctypes.byref(count), *after) == 0
        assert 0 < count.value * 16 <= self.room.array.nbytes
        return count.value

    def rooms(self, name: str, *arguments: object, after: tuple[object, ...] = ()) -> tuple[object, ...]:
        sizes = ctypes.c_size_t(), ctypes.c_size_t()
        assert self.status(f"{name}_bufferSize", *arguments, *map(ctypes.byref, sizes), *after) == 0
        assert sizes[0].value <= self.room.array.nbytes
        return self.room, sizes[0], None, sizes[1]

    def codes(self, count: int = 1) -> list[int]:
        return [int(code) for code in self.info.get()[:count]]

    def settings(self, kind: str) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        assert getattr(self.library, f"cusolverDnCreate{kind.capitalize()}Info")(ctypes.byref(made)) == 0
        assert getattr(self.library, f"cusolverDnX{kind}SetTolerance")(made, ctypes.c_double(1e-7)) == 0
        assert getattr(self.library, f"cusolverDnX{kind}SetMaxSweeps")(made, 15) == 0
        return made


def spaced(matrix: np.ndarray) -> OnDevice:
    """With columns that are `GAP` further apart than they need be."""
    rows, columns = matrix.shape
    wide = np.full((rows + GAP, columns), 99, matrix.dtype, order="F")
    wide[:rows] = matrix
    return OnDevice(wide)


def inner(on: OnDevice) -> np.ndarray:
    whole = on.get()
    assert (whole[-GAP:] == 99).all()  # between columns nothing was written
    return whole[:-GAP]


def positive(kind: str, n: int) -> np.ndarray:
    a = random(kind, n, n)
    return np.asfortranarray(a @ a.conj().T + n * np.eye(n, dtype=kind))


def half(matrix: np.ndarray, fill: int) -> OnDevice:
    """Of whose other triangle nobody may look at an element."""
    other = np.tri(len(matrix), k=-1, dtype=bool)
    return spaced(np.where(other if fill else other.T, np.nan, matrix).astype(matrix.dtype))


def name_of(letter: str, real: str, of_complex: str) -> str:
    return letter + (of_complex if letter in "CZ" else real)


def long(value: int) -> ctypes.c_longlong:
    return ctypes.c_longlong(value)


def cholesky(lib: Solver) -> Found:
    for letter, kind in LETTERS.items():
        for n, fill in ((1, 0), (9, 0), (70, 1)):
            lead, a, b = n + GAP, positive(kind, n), random(kind, n, 4)
            on, right = half(a, fill), spaced(b)
            count = lib.elements(f"{letter}potrf", fill, n, on, lead)
            assert lib.status(f"{letter}potrf", fill, n, on, lead, lib.room, count, lib.info) == 0
            assert lib.codes() == [0]
            factor = triangle(inner(on), fill)
            yield (
                f"{letter}potrf",
                apart(factor @ factor.conj().T if fill == 0 else factor.conj().T @ factor, a),
            )
            assert lib.status(f"{letter}potrs", fill, n, 4, on, lead, right, lead, lib.info) == 0
            yield f"{letter}potrs", apart(inner(right), np.linalg.solve(a, b))
            count = lib.elements(f"{letter}potri", fill, n, on, lead)
            assert lib.status(f"{letter}potri", fill, n, on, lead, lib.room, count, lib.info) == 0
            yield f"{letter}potri", apart(mirrored(inner(on), fill, True), np.linalg.inv(a))
            number, on, right = TYPES[kind], spaced(a), spaced(b)
            sizes = (lib.params, fill, long(n), number, on, long(lead), number)
            assert lib.status("Xpotrf", *sizes, *lib.rooms("Xpotrf", *sizes), lib.info) == 0
            given = (number, on, long(lead), number, right, long(lead), lib.info)
            assert lib.status("Xpotrs", lib.params, fill, long(n), long(4), *given) == 0
            yield f"{letter}Xpotrs", apart(inner(right), np.linalg.solve(a, b))
        matrices = [positive(kind, 6) for _ in range(3)]
        matrices[1][3, 3] = -5  # of which there is no root
        sides = [random(kind, 6, 1) for _ in range(3)]
        each, array = batch_of(matrices)
        right, at = batch_of(sides)
        assert lib.status(f"{letter}potrfBatched", 0, 6, array, 6, lib.info, 3) == 0
        assert lib.codes(3) == [0, 4, 0]
        assert lib.status(f"{letter}potrsBatched", 0, 6, 1, array, 6, at, 6, lib.info, 3) == 0
        for i in (0, 2):
            yield f"{letter}potrsBatched", apart(right[i].get(), np.linalg.solve(matrices[i], sides[i]))
        assert each


def lu(lib: Solver) -> Found:
    for letter, kind in LETTERS.items():
        for m, n in ((1, 1), (8, 8), (7, 12), (60, 33)):
            lead, a = m + GAP, random(kind, m, n)
            on, pivots = spaced(a), OnDevice(np.zeros(min(m, n), "int32"))
            lib.elements(f"{letter}getrf", m, n, on, lead)
            assert lib.status(f"{letter}getrf", m, n, on, lead, lib.room, pivots, lib.info) == 0
            yield f"{letter}getrf", apart(multiplied(inner(on), pivots.get()), a)
            number, wide, pivots = TYPES[kind], spaced(a), OnDevice(np.zeros(min(m, n), "int64"))
            sizes = (lib.params, long(m), long(n), number, wide, long(lead))
            rooms = lib.rooms("Xgetrf", *sizes, number)
            assert lib.status("Xgetrf", *sizes, pivots, number, *rooms, lib.info) == 0
            yield f"{letter}Xgetrf", apart(multiplied(inner(wide), pivots.get()), a)
        n, a, b = 10, random(kind, 10, 10), random(kind, 10, 3)
        lead, on, pivots = n + GAP, spaced(a), OnDevice(np.zeros(n, "int32"))
        assert lib.status(f"{letter}getrf", n, n, on, lead, lib.room, pivots, lib.info) == 0
        wide = OnDevice(pivots.get().astype("int64"))
        for op in (0, 1, 2):
            right, wanted = spaced(b), np.linalg.solve(operated(a, op), b)
            assert lib.status(f"{letter}getrs", op, n, 3, on, lead, pivots, right, lead, lib.info) == 0
            yield f"{letter}getrs", apart(inner(right), wanted)
            right, number = spaced(b), TYPES[kind]
            given = (number, on, long(lead), wide, number, right, long(lead), lib.info)
            assert lib.status("Xgetrs", lib.params, op, long(n), long(3), *given) == 0
            yield f"{letter}Xgetrs", apart(inner(right), wanted)
        a += np.asfortranarray(8 * np.eye(n, dtype=kind))  # which needs no exchanges
        on = spaced(a)
        assert lib.status(f"{letter}getrf", n, n, on, lead, lib.room, None, lib.info) == 0
        yield f"{letter}getrf in order", apart(multiplied(inner(on), np.arange(1, n + 1)), a)
        singular = spaced(np.zeros((n, n), kind, order="F"))
        assert lib.status(f"{letter}getrf", n, n, singular, lead, lib.room, pivots, lib.info) == 0
        assert lib.codes() == [1]


def multiplied(factors: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The matrix whose factors these are."""
    rows, columns = factors.shape
    few = min(rows, columns)
    lower = np.tril(factors[:, :few], -1) + np.eye(rows, few, dtype=factors.dtype)
    product = lower @ np.triu(factors[:few])
    for i in reversed(range(few)):
        product[[i, pivots[i] - 1]] = product[[pivots[i] - 1, i]]
    return product


def orthogonal(lib: Solver) -> Found:
    for letter, kind in LETTERS.items():
        make, times = name_of(letter, "orgqr", "ungqr"), name_of(letter, "ormqr", "unmqr")
        for m, n in ((1, 1), (12, 7), (40, 40)):
            lead, a = m + GAP, random(kind, m, n)
            on, tau = spaced(a), OnDevice(np.zeros(n, kind))
            count = lib.elements(f"{letter}geqrf", m, n, on, lead)
            assert lib.status(f"{letter}geqrf", m, n, on, lead, tau, lib.room, count, lib.info) == 0
            r, reflectors = np.triu(inner(on)[:n]), OnDevice(on.get())
            for op in (0, 2):
                c = random(kind, m, 5)
                changed = spaced(c)
                sizes = (0, op, m, 5, n, reflectors, lead, tau, changed, lead)
                count = lib.elements(times, *sizes)
                assert lib.status(times, *sizes, lib.room, count, lib.info) == 0
                whole = np.linalg.qr(a, mode="complete")[0]
                back = spaced(inner(changed))
                sizes = (0, 2 - op, m, 5, n, reflectors, lead, tau, back, lead)
                assert lib.status(times, *sizes, lib.room, count, lib.info) == 0
                yield times, apart(inner(back), c)  # and back again
                if op == 2:
                    projected = np.abs(whole[:, :n].conj().T @ c)
                    yield times, apart(np.abs(inner(changed)[:n]), projected)
            sizes = (m, n, n, on, lead, tau)
            count = lib.elements(make, *sizes)
            assert lib.status(make, *sizes, lib.room, count, lib.info) == 0
            q = inner(on)
            yield f"{letter}geqrf", apart(q @ r, a)
            yield make, apart(q.conj().T @ q, np.eye(n))
            number, wide = TYPES[kind], spaced(a)
            sizes_64 = (lib.params, long(m), long(n), number, wide, long(lead), number, tau, number)
            assert lib.status("Xgeqrf", *sizes_64, *lib.rooms("Xgeqrf", *sizes_64), lib.info) == 0
            yield f"{letter}Xgeqrf", apart(np.abs(np.triu(inner(wide)[:n])), np.abs(r))


def symmetric(lib: Solver) -> Found:
    """Factors of indefinite matrices, with blocks of two rows."""
    for letter, kind in LETTERS.items():
        for n, fill in ((1, 0), (9, 0), (9, 1), (40, 1)):
            lead, a, b = n + GAP, mirrored(random(kind, n, n), fill, False), random(kind, n, 3)
            a = np.asfortranarray(a - np.diag(np.diag(a)) if n > 1 else a)
            on, right, pivots = spaced(a), spaced(b), OnDevice(np.zeros(n, "int32"))
            count = lib.elements(f"{letter}sytrf", n, on, lead)
            assert lib.status(f"{letter}sytrf", fill, n, on, lead, pivots, lib.room, count, lib.info) == 0
            assert lib.codes() == [0]
            assert n == 1 or (pivots.get() < 0).any()
            number, wide = TYPES[kind], OnDevice(pivots.get().astype("int64"))
            sizes = (fill, long(n), long(3), number, on, long(lead), wide, number, right, long(lead))
            assert lib.status("Xsytrs", *sizes, *lib.rooms("Xsytrs", *sizes), lib.info) == 0
            yield f"{letter}sytrs", apart(inner(right), np.linalg.solve(a, b))


def eigenvalues(lib: Solver) -> Found:
    syevj = lib.settings("syevj")
    for letter, kind in LETTERS.items():
        real, number = REAL[letter], TYPES[kind]
        for n, fill in ((1, 0), (8, 0), (45, 1)):
            lead, a = n + GAP, mirrored(random(kind, n, n), fill, True)
            a = np.asfortranarray(a.astype(kind))
            wanted = np.linalg.eigvalsh(a)
            for name, after in (
                (name_of(letter, "syevd", "heevd"), ()),
                (name_of(letter, "syevj", "heevj"), (syevj,)),
            ):
                for job in (0, 1):
                    on, w = half(a, fill), OnDevice(np.zeros(n, real))
                    sizes = (job, fill, n, on, lead, w)
                    count = lib.elements(name, *sizes, after=after)
                    assert lib.status(name, *sizes, lib.room, count, lib.info, *after) == 0
                    assert lib.codes() == [0]
                    yield name, apart(w.get(), wanted)
                    if job:
                        v = inner(on)
                        yield f"{name} vectors", apart(a @ v, v * w.get())
            on, w = half(a, fill), OnDevice(np.zeros(n, real))
            sizes_64 = (lib.params, 1, fill, long(n), number, on, long(lead), TYPES[real], w, number)
            assert lib.status("Xsyevd", *sizes_64, *lib.rooms("Xsyevd", *sizes_64), lib.info) == 0
            yield f"{letter}Xsyevd", apart(inner(on) * w.get(), a @ inner(on))
            b = positive(kind, n)
            name, left, right = name_of(letter, "sygvd", "hegvd"), half(a, fill), half(b, fill)
            sizes = (1, 1, fill, n, left, lead, right, lead, w)
            count = lib.elements(name, *sizes)
            assert lib.status(name, *sizes, lib.room, count, lib.info) == 0
            v = inner(left)
            yield name, apart(a @ v, b @ v * w.get())
        n, batch = 6, 4
        matrices = np.stack([mirrored(random(kind, n, n), 0, True).astype(kind) for _ in range(batch)])
        flat = np.zeros((batch, n, n + GAP), kind)
        flat[:, :, :n] = matrices.transpose(0, 2, 1)
        for name, after in ((name_of(letter, "syevjBatched", "heevjBatched"), (syevj, batch)), ("Xsyev", ())):
            on, w = OnDevice(flat), OnDevice(np.zeros((batch, n), real))
            if name == "Xsyev":
                sizes_64 = (lib.params, 1, 0, long(n), number, on, long(n + GAP), TYPES[real], w, number)
                rooms = lib.rooms("XsyevBatched", *sizes_64, after=(long(batch),))
                assert lib.status("XsyevBatched", *sizes_64, *rooms, lib.info, long(batch)) == 0
            else:
                sizes = (1, 0, n, on, n + GAP, w)
                count = lib.elements(name, *sizes, after=after)
                assert lib.status(name, *sizes, lib.room, count, lib.info, *after) == 0
            assert lib.codes(batch) == [0] * batch
            v = on.get()[:, :, :n].transpose(0, 2, 1)
            yield f"{letter}{name}", apart(matrices @ v, v * w.get()[:, None, :])


def singular(lib: Solver) -> Found:
    gesvdj = lib.settings("gesvdj")
    for letter, kind in LETTERS.items():
        real, number = REAL[letter], TYPES[kind]
        for m, n in ((1, 1), (9, 5), (30, 30), (5, 9)):
            few, a = min(m, n), random(kind, m, n)
            wanted = np.linalg.svd(a, compute_uv=False)
            for economical in (0, 1):
                left, right = (few, few) if economical else (m, n)
                on, s = spaced(a), OnDevice(np.zeros(few, real))
                u, v = spaced(np.zeros((m, left), kind)), spaced(np.zeros((n, right), kind))
                sizes = (1, economical, m, n, on, m + GAP, s, u, m + GAP, v, n + GAP)
                count = lib.elements(f"{letter}gesvdj", *sizes, after=(gesvdj,))
                assert lib.status(f"{letter}gesvdj", *sizes, lib.room, count, lib.info, gesvdj) == 0
                assert lib.codes() == [0]
                yield f"{letter}gesvdj", apart(s.get(), wanted)
                whole = inner(u)[:, :few] * s.get() @ inner(v)[:, :few].conj().T
                yield f"{letter}gesvdj vectors", apart(whole, a)
                yield f"{letter}gesvdj vectors", apart(inner(v).conj().T @ inner(v), np.eye(right))
            on, s = spaced(a), OnDevice(np.zeros(few, real))
            sizes = (0, 0, m, n, on, m + GAP, s, None, 1, None, 1)
            assert lib.status(f"{letter}gesvdj", *sizes, lib.room, 1, lib.info, gesvdj) == 0
            yield f"{letter}gesvdj values", apart(s.get(), wanted)
            if m < n:
                continue
            for job in "ASN":
                left, right = (m, n) if job == "A" else (few, few)
                u, vt = spaced(np.zeros((m, left), kind)), spaced(np.zeros((right, n), kind))
                for wide in (False, True):
                    on, s = spaced(a), OnDevice(np.zeros(few, real))
                    if wide:
                        sizes_64 = (lib.params, job, job, long(m), long(n), number, on, long(m + GAP))
                        sizes_64 += (
                            TYPES[real],
                            s,
                            number,
                            u,
                            long(m + GAP),
                            number,
                            vt,
                            long(right + GAP),
                            number,
                        )
                        assert lib.status("Xgesvd", *sizes_64, *lib.rooms("Xgesvd", *sizes_64), lib.info) == 0
                    else:
                        count = lib.elements(f"{letter}gesvd", m, n)
                        given = (on, m + GAP, s, u, m + GAP, vt, right + GAP, lib.room, count, None, lib.info)
                        assert lib.status(f"{letter}gesvd", job, job, m, n, *given) == 0
                    yield f"{letter}gesvd", apart(s.get(), wanted)
                    if job != "N":
                        yield (
                            f"{letter}gesvd vectors",
                            apart(inner(u)[:, :few] * s.get() @ inner(vt)[:few], a),
                        )
        m, n, batch = 7, 4, 3
        matrices = np.stack([random(kind, m, n) for _ in range(batch)])
        on = OnDevice(np.ascontiguousarray(matrices.transpose(0, 2, 1)))
        s, u = OnDevice(np.zeros((batch, n), real)), OnDevice(np.zeros((batch, m, m), kind))
        v = OnDevice(np.zeros((batch, n, n), kind))
        sizes = (1, m, n, on, m, s, u, m, v, n)
        count = lib.elements(f"{letter}gesvdjBatched", *sizes, after=(gesvdj, batch))
        assert lib.status(f"{letter}gesvdjBatched", *sizes, lib.room, count, lib.info, gesvdj, batch) == 0
        left, right = u.get().transpose(0, 2, 1)[:, :, :n], v.get().transpose(0, 2, 1)
        whole = left * s.get()[:, None, :] @ right.conj().transpose(0, 2, 1)
        yield f"{letter}gesvdjBatched", apart(whole, matrices)


def approximate(lib: Solver) -> Found:
    """Of a batch with gaps: values alone, the largest ones with their vectors, and all that there are."""
    for letter, kind in LETTERS.items():
        name, batch = f"{letter}gesvdaStridedBatched", 3
        for m, n, rank in ((1, 1, 1), (20, 6, 6), (20, 6, 2), (5, 8, 5)):
            matrices = [random(kind, m, n) for _ in range(batch)]
            a = along(matrices, n * (m + GAP) + 5)
            for job in (0, 1):
                s = OnDevice(np.full((batch, rank + 2), 99, REAL[letter]))
                u, v = (OnDevice(np.full((batch, rank * (rows + GAP) + 7), 99, kind)) for rows in (m, n))
                sizes = (job, rank, m, n, a, m + GAP, long(a.array.shape[1]), s, long(rank + 2))
                for on, rows in ((u, m), (v, n)):
                    sizes += (on, rows + GAP, long(on.array.shape[1]))
                count = lib.elements(name, *sizes, after=(batch,))
                assert lib.status(name, *sizes, lib.room, count, lib.info, None, batch) == 0
                assert lib.codes(batch) == [0] * batch
                assert (s.get()[:, rank:] == 99).all()
                for i, matrix in enumerate(matrices):
                    wanted = np.linalg.svd(matrix, full_matrices=False)
                    yield f"{name} values", apart(s.get()[i, :rank], wanted[1][:rank])
                    if not job:
                        assert (u.get() == 99).all()
                        assert (v.get() == 99).all()
                        continue
                    left, right = (taken(on.get()[i], rows, rank) for on, rows in ((u, m), (v, n)))
                    best = wanted[0][:, :rank] * wanted[1][:rank] @ wanted[2][:rank]
                    yield name, apart(left * s.get()[i, :rank] @ right.conj().T, best)


def along(matrices: list[np.ndarray], apart_: int) -> OnDevice:
    """One behind the other, so far apart, with columns that are `GAP` further apart than they need be."""
    rows, columns = matrices[0].shape
    flat = np.full((len(matrices), apart_), 99, matrices[0].dtype)
    for i, matrix in enumerate(matrices):
        view = flat[i, : columns * (rows + GAP)].reshape(columns, rows + GAP)
        view[:, :rows] = matrix.T
    return OnDevice(flat)


def taken(flat: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A matrix that was written with such a gap, and nothing but it."""
    view = flat[: columns * (rows + GAP)].reshape(columns, rows + GAP)
    assert (view[:, rows:] == 99).all()
    assert (flat[columns * (rows + GAP) :] == 99).all()
    return view[:, :rows].T


def any_eigenvalues(lib: Solver) -> Found:
    """Of matrices that are not symmetric: complex numbers, or their parts, where the matrix is real."""
    for letter, kind in LETTERS.items():
        number, is_real = TYPES[kind], kind == REAL[letter]
        of_values = "complex64" if kind in ("float32", "complex64") else "complex128"
        for n in (1, 7, 50):
            a = random(kind, n, n)
            wanted = np.sort_complex(np.linalg.eigvals(a))
            for as_kind in (of_values, kind) if is_real else (of_values,):
                for job in (0, 1):
                    w = OnDevice(np.zeros(n if as_kind == of_values else 2 * n, as_kind))
                    on, v = spaced(a), spaced(np.zeros((n, n), kind))
                    sizes = (lib.params, 0, job, long(n), number, on, long(n + GAP), TYPES[as_kind], w)
                    sizes += (number, None, long(1), number, v, long(n + GAP), number)
                    assert lib.status("Xgeev", *sizes, *lib.rooms("Xgeev", *sizes), lib.info) == 0
                    assert lib.codes() == [0]
                    values = w.get() if as_kind == of_values else w.get()[:n] + 1j * w.get()[n:]
                    yield f"{letter}Xgeev", apart(np.sort_complex(values), wanted)
                    if job:
                        vectors = paired(inner(v), values) if is_real else inner(v)
                        yield f"{letter}Xgeev vectors", apart(a @ vectors, vectors * values)
                        yield f"{letter}Xgeev length", apart(np.linalg.norm(vectors, axis=0), np.ones(n))


def paired(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Vectors whose real and imaginary parts stand in two columns, where a value is complex."""
    vectors = columns.astype(complex)
    for j in np.flatnonzero(values.imag > 0):
        vectors[:, j] = columns[:, j] + 1j * columns[:, j + 1]
        vectors[:, j + 1] = vectors[:, j].conj()
    return vectors


def reflected(a: np.ndarray, tau: np.ndarray, fill: int) -> np.ndarray:
    """The product of the reflectors that a reduction to tridiagonal form leaves beside the diagonals."""
    n = len(a)
    q = np.eye(n, dtype="complex128")
    for i in range(n - 1) if fill == 0 else reversed(range(n - 1)):
        v = np.zeros(n, "complex128")
        if fill == 0:
            v[i + 1], v[i + 2 :] = 1, a[i + 2 :, i]
        else:
            v[i], v[:i] = 1, a[:i, i + 1]
        q = q @ (np.eye(n) - tau[i] * np.outer(v, v.conj()))
    return q


def tridiagonal(lib: Solver) -> Found:
    for letter, kind in LETTERS.items():
        name = name_of(letter, "sytrd", "hetrd")
        for n, fill in ((1, 0), (8, 0), (8, 1), (40, 1)):
            lead, a = n + GAP, mirrored(random(kind, n, n), fill, True).astype(kind)
            on, tau = half(np.asfortranarray(a), fill), OnDevice(np.zeros(max(n - 1, 1), kind))
            d, e = (OnDevice(np.zeros(size, REAL[letter])) for size in (n, max(n - 1, 1)))
            sizes = (fill, n, on, lead, d, e, tau)
            count = lib.elements(name, *sizes)
            assert lib.status(name, *sizes, lib.room, count, lib.info) == 0
            assert lib.codes() == [0]
            beside = e.get()[: n - 1]
            t = np.diag(d.get()) + np.diag(beside, 1) + np.diag(beside, -1)
            q = reflected(inner(on), tau.get(), fill)
            yield name, apart(q @ t @ q.conj().T, a)


def polar(lib: Solver) -> Found:
    for letter, kind in LETTERS.items():
        real, number = REAL[letter], TYPES[kind]
        for (m, n), economical in itertools.product(((1, 1), (9, 5), (20, 20), (5, 9)), range(2)):
            few, a, error = min(m, n), random(kind, m, n), ctypes.c_double(-1)
            left, right = (few, few) if economical else (m, n)
            on, s = spaced(a), OnDevice(np.zeros(few, real))
            u, v = spaced(np.zeros((m, left), kind)), spaced(np.zeros((n, right), kind))
            sizes = (lib.params, 1, economical, long(m), long(n), number, on, long(m + GAP), TYPES[real], s)
            sizes += (number, u, long(m + GAP), number, v, long(n + GAP), number)
            rooms = lib.rooms("Xgesvdp", *sizes)
            assert lib.status("Xgesvdp", *sizes, *rooms, lib.info, ctypes.byref(error)) == 0
            # What it has changed is there when it returns: nothing.
            assert (lib.codes(), error.value) == ([0], 0)
            yield f"{letter}gesvdp", apart(s.get(), np.linalg.svd(a, compute_uv=False))
            whole = inner(u)[:, :few] * s.get() @ inner(v)[:, :few].conj().T
            yield f"{letter}gesvdp vectors", apart(whole, a)


class SparseSolver:
    """The sparse part of a library, whose matrices cuSPARSE's library describes."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.cusparse = ctypes.CDLL(str(Path(path).with_name("libcusparse.so.12")))
        self.handle, self.descriptor = ctypes.c_void_p(), ctypes.c_void_p()
        assert self.library.cusolverSpCreate(ctypes.byref(self.handle)) == 0
        assert self.cusparse.cusparseCreateMatDescr(ctypes.byref(self.descriptor)) == 0

    def solve(
        self, letter: str, n: int, parts: tuple[OnDevice, ...], reorder: int, tolerance: float = 1e-6
    ) -> tuple[int, int]:
        """Its status, and where it has found no pivot. Parts: values, offsets, indices, b and x."""
        real = ctypes.c_float if letter in "SC" else ctypes.c_double
        values, offsets, indices, b, x = map(pointer, parts)
        singularity, count = ctypes.c_int(-2), parts[2].array.size
        given = (values, offsets, indices, b, real(tolerance), reorder, x, ctypes.byref(singularity))
        call = getattr(self.library, f"cusolverSp{letter}csrlsvqr")
        return int(call(self.handle, n, count, self.descriptor, *given)), singularity.value


def parts_of(a: np.ndarray, b: np.ndarray, base: int = 0) -> tuple[OnDevice, ...]:
    """A matrix by rows, a right-hand side, and room for the solution."""
    rows, columns = np.nonzero(a)
    offsets = np.searchsorted(rows, np.arange(len(a) + 1)) + base
    indices = (columns + base).astype("int32")
    arrays = (a[rows, columns], offsets.astype("int32"), indices, b, np.zeros_like(b))
    return tuple(map(OnDevice, arrays))


def sparse(lib: Solver) -> Found:
    own = SparseSolver(lib.library._name)
    generator = np.random.default_rng(5)
    for letter, kind in LETTERS.items():
        for n, reorder in itertools.product((1, 30, 120), range(4)):
            a = np.where(generator.random((n, n)) < 3 / n, random(kind, n, n), 0)
            a = (a[generator.permutation(n)] + 3 * np.eye(n)[generator.permutation(n)]).astype(kind)
            base, b = reorder % 2, random(kind, n)
            assert own.cusparse.cusparseSetMatIndexBase(own.descriptor, base) == 0
            parts = parts_of(a, b, base)
            assert own.solve(letter, n, parts, reorder) == (0, -1)
            yield f"{letter}csrlsvqr", apart(a @ parts[4].get(), b)
            a[:, n // 2] = 0
            status, singularity = own.solve(letter, n, parts_of(a, b, base), reorder)
            assert status == 0
            assert singularity == n // 2 if reorder == 0 else 0 <= singularity < n


GROUPS = {
    each.__name__: each
    for each in (
        *(cholesky, lu, orthogonal, symmetric, eigenvalues, singular, approximate, any_eigenvalues),
        *(tridiagonal, polar, sparse),
    )
}


def main(group: str, library: str) -> None:
    start()
    print(json.dumps(worst_of(GROUPS[group](Solver(library)))))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Times the course's kernels on whatever CUDA device this process has; one JSON object on standard output.

``python -m benchmarks.softgpu_kernels [--cpu-time] [NAME...]``; ``benchmarks.softgpu`` runs it with the
software GPU's environment.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.softgpu_kernels import computation, elementwise, matrices, neighbours, ordering, reductions
from benchmarks.softgpu_kernels.exercise import measure

COURSE = {
    "vector add": elementwise.vector_add,
    "vector add, float64": elementwise.vector_add_float64,
    "saxpy": elementwise.saxpy,
    "Black-Scholes": elementwise.black_scholes,
    "naive matrix product": matrices.naive_product,
    "tiled matrix product": matrices.tiled_product,
    "tiled matrix product, float64": matrices.tiled_product_float64,
    "matrix by vector": matrices.matrix_vector,
    "transpose": matrices.transpose,
    "shared-memory reduction": reductions.shared_reduction,
    "shuffle reduction": reductions.shuffle_reduction,
    "histogram, shared atomics": reductions.shared_histogram,
    "histogram, global atomics": reductions.global_histogram,
    "softmax": reductions.softmax,
    "layer norm": reductions.layer_norm,
    "scan": ordering.scan,
    "compaction": ordering.compaction,
    "bitonic sort": ordering.bitonic_sort,
    "stencil, 1D": neighbours.stencil_1d,
    "stencil, 2D": neighbours.stencil_2d,
    "convolution": neighbours.convolution,
    "game of life": neighbours.game_of_life,
    "Monte-Carlo pi": computation.monte_carlo_pi,
    "Mandelbrot": computation.mandelbrot,
    "Collatz": computation.collatz,
    "n-body": computation.n_body,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time")
    parser.add_argument("names", nargs="*", default=list(COURSE))
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    json.dump({name: measure(COURSE[name](), clock) for name in arguments.names}, sys.stdout)

"""Runs functions of modules of cases by name, as its parent asks by its standard input."""

from __future__ import annotations

import importlib
import pickle
import sys
import traceback

from tests.softgpu.driver.raw import Cuda


def main() -> None:
    cases = {}
    for module in sys.argv[1:]:
        cases |= vars(importlib.import_module(module))
    cuda = Cuda("libcuda.so.1")
    cuda.cuInit(0)
    context = cuda.new("cuDevicePrimaryCtxRetain", 0)
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            name, arguments = pickle.load(asked)
        except EOFError:
            return
        cuda.cuCtxSetCurrent(context)
        try:
            answer = (True, cases[name](cuda, *arguments))
        except Exception:
            answer = (False, traceback.format_exc())
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()

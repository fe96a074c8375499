"""Python imports this when it starts (its manual: ``site``): watch for frameworks, then run the user's."""

import sys


def _run_the_next() -> None:
    """The ``sitecustomize`` that this one stands before."""
    import os
    from importlib import util
    from importlib.machinery import PathFinder

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [at for at in sys.path if os.path.abspath(at) != here])
    if spec is None or spec.loader is None:
        return
    module = util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if sys.version_info >= (3, 9):  # noqa: UP036 - any Python of the machine may find this
    import gpu_kernels_frameworks

    gpu_kernels_frameworks.watch()
_run_the_next()

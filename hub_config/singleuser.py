"""`python -m gpu_kernels.hub_config.singleuser`, for `c.Spawner.cmd`: a server that starts in half the time.

It is `jupyterhub-singleuser` without two things that every start does and no server needs. When a class
begins and everybody starts a server, they are most of what everybody waits for.

1. Jupyter's log of events checks its schemas with jsonschema, which loads whatever can check a format. One of
   those makes the parsers of the format `iri` when it is imported; no schema of Jupyter's has that format.
2. JupyterLab asks yarn, in a Node process, where packages of extensions come from. No server here builds any.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def main() -> None:
    put_off("rfc3987_syntax", "is_valid_syntax")
    ask_no_yarn()
    from jupyterhub.singleuser import main as singleuser

    singleuser()


def put_off(name: str, *functions: str) -> None:
    """Let `import name` succeed at once, and load the module when one of these functions is called."""
    if name in sys.modules:
        return
    stand_in = ModuleType(name)

    def of_the_real_one(function: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
            return getattr(importlib.import_module(name), function)(*arguments, **named)

        return call

    for function in functions:
        setattr(stand_in, function, of_the_real_one(function))
    sys.modules[name] = stand_in


def ask_no_yarn() -> None:
    """JupyterLab goes by its own defaults, as it does where Node is not installed."""
    try:
        from jupyterlab import commands
    except ImportError:
        return
    if hasattr(commands, "_yarn_config"):
        commands._yarn_config = lambda logger: {"yarn config": {}, "npm config": {}}


if __name__ == "__main__":
    main()

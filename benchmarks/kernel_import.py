"""How long a student's kernel imports: ipykernel alone, and under the runtime with `%gpu`, which specs load.

Whole processes of Python, in pairs that take turns in being first; what is loaded is in the disk's cache. The
runtime is its environment: libraries that are loaded first, and what waits for imports of frameworks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

from benchmarks.figures import Figure, main, median
from gpu_kernels.remoting.environment import software_environment

PAIRS = 20
PLAIN = "import ipykernel.kernelapp, ipykernel.ipkernel, IPython.core.completer"
WITH_GPU = f"{PLAIN}\nimport gpu_kernels.magics"
COUNTED = "import sys; print(len([name for name in sys.modules if name.split('.')[0] == 'gpu_kernels']))"


def measure(smallest: bool) -> list[Figure]:
    runtime = software_environment(os.environ)
    plain, gpu = list[float](), list[float]()
    kinds = [(plain, PLAIN, os.environ), (gpu, WITH_GPU, runtime)]
    for _, code, env in kinds:
        _run(code, env)
    for pair in range(1 if smallest else PAIRS):
        for samples, code, env in kinds if pair % 2 else reversed(kinds):
            samples.append(_run(code, env)[0])
    more = median(both - one for one, both in zip(plain, gpu, strict=True))
    modules = int(_run(f"{WITH_GPU}\n{COUNTED}", runtime)[1])
    return [
        Figure("import of a kernel with a slice, more than a plain one", 1e3 * more, "ms", "lower"),
        Figure("import of a plain kernel", 1e3 * median(plain), "ms", "lower"),
        Figure("modules of gpu_kernels in a kernel", modules, "modules", "lower"),
    ]


def _run(code: str, env: Mapping[str, str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
    return time.perf_counter() - began, done.stdout


if __name__ == "__main__":
    main(measure, __doc__)

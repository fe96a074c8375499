"""Print the folder of cuda.h and cudaTypedefs.h from the nvidia-cuda-runtime wheel.

Called by CMake. The headers are NVIDIA's; they come at build time and are never committed.
"""

import importlib.metadata
import sys

files = importlib.metadata.files("nvidia-cuda-runtime") or []
for file in files:
    if file.name == "cuda.h" and file.parent.name == "include":
        print(file.locate().parent)
        break
else:
    sys.exit("cuda.h was not found: the package nvidia-cuda-runtime (see requirements/build.in) is missing")

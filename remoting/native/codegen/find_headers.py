"""Print the folder of a CUDA runtime wheel's headers, of the package named or of nvidia-cuda-runtime.

Called by CMake. The headers are NVIDIA's; they come at build time and are never committed.
"""

import importlib.metadata
import sys

package = sys.argv[1] if len(sys.argv) > 1 else "nvidia-cuda-runtime"
try:
    files = importlib.metadata.files(package) or []
except importlib.metadata.PackageNotFoundError:
    files = []
for file in files:
    if file.name == "cuda_runtime_api.h" and file.parent.name == "include":
        print(file.locate().parent)
        break
else:
    sys.exit(f"CUDA's headers were not found: the package {package} (see requirements/build.in) is missing")

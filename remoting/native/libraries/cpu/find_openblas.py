"""Print the folder of the scipy-openblas64 wheel. Called by CMake; see requirements/build.in."""

import importlib.metadata
import sys

try:
    files = importlib.metadata.files("scipy-openblas64") or []
except importlib.metadata.PackageNotFoundError:
    files = []
for file in files:
    if file.name == "cblas.h":
        print(file.locate().parent.parent)
        break
else:
    sys.exit("OpenBLAS was not found: the package scipy-openblas64 (see requirements/build.in) is missing")

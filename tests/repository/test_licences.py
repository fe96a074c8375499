"""The licence that the package's metadata names is that of all that a wheel has in it."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from packaging.licenses import canonicalize_license_expression

from tests.repository.test_repository import ROOT, tracked_files

pytestmark = pytest.mark.quick

OURS = {"BSD-3-Clause"}
GCC_RUNTIME = {"GPL-3.0-or-later WITH GCC-exception-3.1"}
"""In each of our libraries (``-static-libstdc++``), and in OpenBLAS."""
OF_LIBRARIES = {
    # Of OpenBLAS, the LAPACK in it, and the build that the package brings.
    "OpenBLAS": {"BSD-3-Clause", "BSD-3-Clause-Open-MPI", "BSD-2-Clause"} | GCC_RUNTIME,
    "ducc0": {"BSD-3-Clause"},  # or GPL-2.0-or-later, as one likes
    "joe-kuo": {"BSD-3-Clause"},
    "tklds": {"BSD-3-Clause"},
    "yyjson": {"MIT"},
    "zstd": {"BSD-3-Clause"},
}
"""Of each library in the native build, by the name of the licence's file there."""


def test_the_metadata_names_the_licences_of_all_that_a_wheel_has_in_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert canonicalize_license_expression(project["license"]) == project["license"]
    locked = json.loads((ROOT / "hub_config/proxy/package-lock.json").read_text())["packages"]
    of_proxy = {package["license"] for name, package in locked.items() if name and not package.get("dev")}
    wanted = OURS | GCC_RUNTIME | of_proxy | set().union(*OF_LIBRARIES.values())
    assert set(project["license"].split(" AND ")) == wanted


def test_each_licence_that_the_native_build_installs_is_known() -> None:
    built = [path for path in tracked_files() if path.name == "CMakeLists.txt"]
    installed = re.findall(r"RENAME ([\w-]+)-LICENSE\.txt", "".join(path.read_text() for path in built))
    assert sorted(installed) == sorted(OF_LIBRARIES)

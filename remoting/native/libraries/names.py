"""The names that libraries export, a line each: ``names.py lib….so.N…``. Of NVIDIA's they become calls.txt.

C++'s own are left out: no program asks for those.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable

_LINE = re.compile(r"^[0-9a-f]+ \S (?P<name>[A-Za-z]\w*)(?:@\S+)?$", re.MULTILINE)


def names(paths: Iterable[str]) -> list[str]:
    """Of all of them together. Raises ``CalledProcessError`` for what is no library."""
    command = ["nm", "--dynamic", "--defined-only", "--", *paths]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted({line["name"] for line in _LINE.finditer(said) if " A " not in line[0]})


if __name__ == "__main__":
    print("\n".join(names(sys.argv[1:])))

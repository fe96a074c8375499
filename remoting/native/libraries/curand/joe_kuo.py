"""Write Joe and Kuo's direction numbers as C++: ``joe_kuo.py FILE DIMENSIONS`` reads their list.

Called by CMake.
A line has a dimension, its polynomial's degree and inner coefficients, and the first numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def _array(kind: str, name: str, values: Iterable[str]) -> str:
    return f"constexpr {kind} {name}[] = {{{','.join(values)}}};\n"


def main(path: Path, dimensions: int) -> None:
    # The first dimension has no line.
    lines = [line.split() for line in path.read_text().splitlines()[1:dimensions]]
    assert [int(line[0]) for line in lines] == list(range(2, dimensions + 1))
    assert all(len(line) == 3 + int(line[1]) for line in lines)
    print(_array("uint8_t", "kDegrees", (line[1] for line in lines)))
    print(_array("uint32_t", "kInner", (line[2] for line in lines)))
    print(_array("uint32_t", "kInitial", (number for line in lines for number in line[3:])))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

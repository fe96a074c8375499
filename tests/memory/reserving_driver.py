"""Makes ``reserving_driver.c``: a driver that reserves, delays and charges as a real one does."""

from __future__ import annotations

import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("reserving_driver.c")
MIB = 1 << 20


def nvjitlink() -> Path | None:
    """NVIDIA's nvJitLink, where its wheel is installed: it compiles without a GPU."""
    try:
        import nvidia
    except ImportError:
        return None
    found = (path for folder in nvidia.__path__ for path in Path(folder).glob("*/lib/libnvJitLink.so.13"))
    return next(found, None)


@dataclass(frozen=True)
class ReservingDriver:
    library: Path
    held_folder: Path

    def held(self) -> dict[int, int]:
        """Bytes of the GPU that each process holds, as the driver counts them; by process id."""
        files = (path for path in self.held_folder.iterdir() if path.name.isdigit())
        return {int(path.name): int(path.read_text()) for path in files}

    def held_mib(self, pid: int) -> int:
        return round(self.held()[pid] / MIB)


def make_reserving_driver(folder: Path, behind: Path, *, total_mib: int, context_mib: int) -> ReservingDriver:
    """``behind``: the software GPU, which needs more memory than ``total_mib``."""
    held_folder = folder / "held"
    held_folder.mkdir(mode=0o777)
    values: dict[str, object] = {
        "HELD_FOLDER": held_folder,
        "TOTAL_MIB": total_mib,
        "CONTEXT_MIB": context_mib,
        "NVJITLINK": nvjitlink() or "",
    }
    return ReservingDriver(driver_in_front(SOURCE, folder, behind, values), held_folder)


def driver_in_front(source: Path, folder: Path, behind: Path, values: dict[str, object]) -> Path:
    """The driver of ``source``, with ``values`` for names between @. The rest of it is ``behind``'s."""
    text = source.read_text()
    own = set(re.findall(r"^int (cu\w+)\(", text, re.MULTILINE))
    names = sorted(exported(behind) - own)
    values |= {"BEHIND": behind, "COUNT": len(names), "NAMES": ", ".join(f'"{name}"' for name in names)}
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    for i, name in enumerate(names):
        text += f'__asm__(".globl {name}\\n.type {name},@function\\n'
        text += f'{name}: jmp *slots+{8 * i}(%rip)\\n");\n'
    written, library = folder / source.name, folder / "libcuda.so.1"
    written.write_text(text)
    compiler = ["cc", "-shared", "-fPIC", "-O1", "-std=gnu11", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([*compiler, written, "-o", library, "-ldl", "-lpthread"], check=True)
    return library


@functools.cache
def exported(library: Path) -> frozenset[str]:
    """The driver's functions that a library has."""
    table = subprocess.run(
        ["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True
    )
    return frozenset(re.findall(r" [TWti] (cu\w+)$", table.stdout, re.MULTILINE))

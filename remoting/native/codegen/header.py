"""What the driver's headers declare, read with a real C parser: cuda.h, those for graphics, their typedefs.

They are preprocessed with ``__CUDA_API_VERSION_INTERNAL``, which makes them declare every exported
form of every function: the present one, older ``_vN`` ones and the ``_ptds``/``_ptsz`` ones that work on the
per-thread default stream.
"""

from __future__ import annotations

import copy
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pycparser import c_ast, c_generator, c_parser

# cuda.h wants nothing of the C library but these types, and pycparser does not read gcc's extensions.
_STANDARD_TYPES = """
typedef unsigned long size_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t;
typedef unsigned int uint32_t; typedef unsigned long uint64_t;
typedef int int32_t; typedef long int64_t;
"""
_FORM = re.compile(r"^(?P<base>cu[A-Za-z0-9]+?)(?:_v(?P<version>\d+))?(?P<per_thread>_ptds|_ptsz)?$")
_POINTER = re.compile(r"^PFN_(?P<base>cu\w+?)_v(?P<version>\d+)(?P<per_thread>_ptds|_ptsz)?$")


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str
    """The type without the name, as C text: ``const void *``."""
    declaration: str
    """The type with the name, as C text; differs for arrays and function pointers."""


@dataclass(frozen=True)
class Function:
    """One exported symbol."""

    symbol: str
    base: str
    """The name asked of cuGetProcAddress."""
    form: int
    """The N of ``_vN``; 1 where there is none."""
    per_thread: bool
    result: str
    parameters: tuple[Parameter, ...]
    signature: str
    """Result and parameter types with typedefs resolved: equal for the same ABI."""


@dataclass(frozen=True)
class PointerType:
    """One ``PFN_name_vNNNN`` of cudaTypedefs.h: ``base`` has had this ABI since CUDA ``version``."""

    base: str
    version: int
    per_thread: bool
    signature: str


def preprocess(include: Path) -> str:
    """The driver's headers as one C text without directives."""
    own = Path(__file__).parents[1] / "cuda"
    source = "#include <stdlib.h>\n"
    for name in ("cuda", "cudaEGL", "cudaGL", "cudaVDPAU"):
        source += f"#include <{name}Typedefs.h>\n"  # which includes the header itself
    source += (own / "profiler.h").read_text()
    return preprocessed(source, [own / "graphics", include])


def preprocessed(source: str, include: Iterable[Path]) -> str:
    """``source`` and NVIDIA's headers in ``include`` that it names, as one C text without directives."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stdlib.h", "stdint.h", "stddef.h", "limits.h"):
            (Path(folder) / name).write_text("#pragma once\n#include <gk_types.h>\n")
        (Path(folder) / "gk_types.h").write_text("#pragma once\n" + _STANDARD_TYPES)
        folders = [folder, *(str(path) for path in include)]
        command = ["cc", "-E", "-P", "-nostdinc", *(f"-I{path}" for path in folders)]
        command += ["-D__CUDA_API_VERSION_INTERNAL=1", "-D__attribute__(x)=", "-xc", "-"]
        return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


class Header:
    """Functions and function-pointer types, in the order of the headers."""

    def __init__(self, text: str) -> None:
        tree = c_parser.CParser().parse(text)
        self._typedefs = {node.name: node.type for node in tree.ext if isinstance(node, c_ast.Typedef)}
        self._enumerators = dict(self._constants(tree))
        self.functions: dict[str, Function] = {}
        self.pointer_types: list[PointerType] = []
        for node in tree.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
                if node.name.startswith("cu"):
                    function = self._function(node.name, node.type)
                    self.functions[function.symbol] = function
            elif isinstance(node, c_ast.Typedef) and (match := _POINTER.match(node.name)):
                signature = self._signature(node.type.type)
                per_thread = match["per_thread"] is not None
                entry = PointerType(match["base"], int(match["version"]), per_thread, signature)
                self.pointer_types.append(entry)

    def enumerators(self, prefix: str) -> dict[str, int]:
        """The enumeration constants whose names start with ``prefix``."""
        return {name: value for name, value in self._enumerators.items() if name.startswith(prefix)}

    def _function(self, symbol: str, node: c_ast.FuncDecl) -> Function:
        match = _FORM.match(symbol)
        if match is None:
            raise ValueError(f"{symbol} in cuda.h does not look like name[_vN][_ptds|_ptsz]")
        generator = c_generator.CGenerator()
        parameters = []
        for declaration in self._parameters(node):
            if not declaration.name:
                raise ValueError(f"{symbol} has a parameter without a name")
            text = generator.visit(declaration)
            parameters.append(Parameter(declaration.name, _decayed(declaration.type), text))
        return Function(
            symbol=symbol,
            base=match["base"],
            form=int(match["version"] or 1),
            per_thread=match["per_thread"] is not None,
            result=generator.visit(node.type),
            parameters=tuple(parameters),
            signature=self._signature(node),
        )

    @staticmethod
    def _parameters(node: c_ast.FuncDecl) -> list[c_ast.Decl]:
        listed = node.args.params if node.args else []
        return [p for p in listed if not (isinstance(p, c_ast.Typename) and _is_void(p.type))]

    def _signature(self, node: c_ast.FuncDecl) -> str:
        types = [self._resolved(parameter.type) for parameter in self._parameters(node)]
        return f"{self._resolved(node.type)}({', '.join(types)})"

    def _resolved(self, node: c_ast.Node) -> str:
        """A type as text that is equal for types that C calls the same; qualifiers do not change an ABI."""
        if isinstance(node, c_ast.PtrDecl | c_ast.ArrayDecl):
            return self._resolved(node.type) + "*"
        if isinstance(node, c_ast.FuncDecl):
            return f"({self._signature(node)})"
        if isinstance(node, c_ast.TypeDecl):
            return self._resolved(node.type)
        if isinstance(node, c_ast.Struct | c_ast.Union | c_ast.Enum):
            return f"{type(node).__name__} {node.name}"
        name = " ".join(node.names)
        return self._resolved(self._typedefs[name]) if name in self._typedefs else name

    @staticmethod
    def _constants(tree: c_ast.FileAST) -> Iterator[tuple[str, int]]:
        known: dict[str, int] = {}
        for enumeration in _enumerations(tree):
            value = -1
            for item in enumeration.values.enumerators:
                value = value + 1 if item.value is None else _evaluate(item.value, known)
                known[item.name] = value
                yield item.name, value


def _enumerations(tree: c_ast.FileAST) -> Iterator[c_ast.Enum]:
    found: list[c_ast.Enum] = []

    class Visitor(c_ast.NodeVisitor):
        def visit_Enum(self, node: c_ast.Enum) -> None:
            if node.values:
                found.append(node)

    Visitor().visit(tree)
    return iter(found)


def _decayed(node: c_ast.Node) -> str:
    """The type of a parameter without its name, as it decays in a function: arrays become pointers."""
    node = copy.deepcopy(node)
    if isinstance(node, c_ast.ArrayDecl):
        node = c_ast.PtrDecl([], node.type)
    inner = node
    while not isinstance(inner, c_ast.TypeDecl):
        inner = inner.type
    inner.declname = None
    return str(c_generator.CGenerator().visit(c_ast.Typename(None, [], None, node))).strip()


def _is_void(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.TypeDecl) and getattr(node.type, "names", None) == ["void"]


def _evaluate(node: c_ast.Node, known: dict[str, int]) -> int:
    """The value of an enumerator's expression: literals, names, and the operators that cuda.h uses."""
    if isinstance(node, c_ast.Constant):
        if node.type == "char":
            return ord(node.value.strip("'"))
        return int(node.value.rstrip("uUlL"), 0)
    if isinstance(node, c_ast.ID):
        return known[node.name]
    if isinstance(node, c_ast.Cast):
        return _evaluate(node.expr, known)
    if isinstance(node, c_ast.UnaryOp):
        value = _evaluate(node.expr, known)
        return {"-": -value, "~": ~value, "+": value}[node.op]
    left, right = _evaluate(node.left, known), _evaluate(node.right, known)
    return {"<<": left << right, "|": left | right, "+": left + right, "-": left - right}[node.op]

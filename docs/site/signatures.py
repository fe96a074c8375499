"""An extension of griffe: what the Python reference cannot read off the sources as they stand.

A client's methods are declared as ``name = Method(function)``: they are shown with that function's parameters
and its answer. A resource's field has its text in ``Annotated[type, Meta(description=...)]``: all fields of a
class are shown in a table, with their types and texts.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

PACKAGE = "gpu_kernels"
CALLS = f"{PACKAGE}.client.api.Api"
MAKERS = {"Method", "ScriptMethod"}
REQUESTS = {"Request", "Script"}
"""What those functions make; the client answers what is in it."""
FIELDS_OF = "Resource"
"""A class with this base has fields."""
SHORT = {
    "Id": ("str", ""),
    "Count": ("int", ""),
    "Thousandths": ("int", "Thousandths of a GPU"),
    "Instant": ("str", "An instant, as ISO 8601 writes it"),
    "Next": ("str | None", "Asks for what follows; None where nothing does"),
}
"""Types that gpu_kernels.resources has names for, and what they are."""


class Signatures(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Called when all of the package has been read."""
        if pkg.name != PACKAGE:
            return
        calls = loader.modules_collection[CALLS]
        for name, attribute in list(calls.members.items()):
            value = getattr(attribute, "value", None)
            if isinstance(value, griffe.ExprCall) and str(value.function) in MAKERS:
                made = loader.modules_collection[value.arguments[0].canonical_path]
                calls.set_member(name, method_of(name, made))

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Called when a class has been read with all in it: a resource gets a table of its fields, an error
        says its code.
        """
        if cls.docstring is None:
            return
        fields = [row(attribute) for attribute in cls.attributes.values() if is_field(attribute)]
        if fields and FIELDS_OF in {str(base) for base in cls.bases}:
            cls.docstring.value += "\n\nAttributes:\n" + "\n".join(fields)
        code = cls.attributes.get("code")
        if code is not None and str(code.value)[0] in "'\"":
            cls.docstring.value += f"\n\nIts code is `{ast.literal_eval(str(code.value))}`."


def method_of(name: str, function: griffe.Function) -> griffe.Function:
    """The function as a method of the client: with ``self``, and the answer in place of the request."""
    returns = function.returns
    if isinstance(returns, griffe.ExprSubscript) and str(returns.left) in REQUESTS:
        returns = returns.slice
    itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    method = griffe.Function(
        name,
        lineno=function.lineno,
        endlineno=function.endlineno,
        parameters=griffe.Parameters(itself, *function.parameters),
        returns=returns,
    )
    if function.docstring is not None:
        method.docstring = griffe.Docstring(function.docstring.value, parent=method)
    return method


def is_field(attribute: griffe.Attribute) -> bool:
    """A property is none: it has a text of its own."""
    return attribute.annotation is not None and "property" not in attribute.labels


def row(field: griffe.Attribute) -> str:
    """As a docstring would have it: name, type and what it says of itself."""
    kind, notes = field.annotation, []
    if isinstance(kind, griffe.ExprSubscript) and str(kind.left) == "Annotated":
        kind, *notes = kind.slice.elements
    text = " ".join(text for note in notes for text in descriptions(note))
    words = re.split(r"(\w+)", re.sub(r"Annotated\[(\w+), \w+\([^)]*\)\]", r"\1", str(kind)))
    text = text or next((SHORT[word][1] for word in words if word in SHORT), "")
    plain = "".join(SHORT[word][0] if word in SHORT else word for word in words)
    return f"    {field.name} ({plain}): {text}"


def descriptions(note: object) -> list[str]:
    """What ``Meta(description=...)`` says."""
    if not isinstance(note, griffe.ExprCall):
        return []
    return [
        ast.literal_eval(str(argument.value))
        for argument in note.arguments
        if isinstance(argument, griffe.ExprKeyword) and argument.name == "description"
    ]

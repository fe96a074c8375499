"""The reference page names everything that there is, and nothing that there is not."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from prometheus_client import Counter
from pydantic import BaseModel

from gpu_kernels import errors
from gpu_kernels.pool.service import identity, reference, schemas
from gpu_kernels.pool.service.metrics import Metrics
from gpu_kernels.pool.service.operations import operations_of
from gpu_kernels.pool.service.routes import ROUTES

pytestmark = pytest.mark.quick

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "pool-api.md").read_text()


def test_the_made_parts_are_as_the_code_says() -> None:
    assert reference.with_made_parts(PAGE) == PAGE, (
        "run: python -m gpu_kernels.pool.service.reference docs/reference/pool-api.md"
    )


def test_no_field_has_two_bounds_of_a_kind() -> None:
    """Of two, releases of pydantic go by another one: a field that wants less than its type says so whole."""
    modules = [import_module(f"{schemas.__name__}.{each.name}") for each in iter_modules(schemas.__path__)]
    models = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    looked_at = 0
    for model in (kind for kind in models if issubclass(kind, BaseModel)):
        for name, field in model.model_fields.items():
            kinds = [type(bound).__name__ for bound in field.metadata]
            assert len(kinds) == len(set(kinds)), f"{model.__name__}.{name}: {field.metadata}"
            looked_at += len(kinds)
    assert looked_at > 100


def test_every_endpoint_has_its_section() -> None:
    endpoints = {f"{method} {path}" for path, handler in ROUTES for method in operations_of(handler)}
    assert set(re.findall(r"^### `([A-Z]+ [^`]+)`$", PAGE, re.M)) == endpoints


def table(heading: str) -> set[str]:
    """What the first column of the table after a heading names."""
    section = PAGE.split(f"{heading}\n", 1)[1].split("\n#", 1)[0]
    cells = re.findall(r"^\| ([^|]*) \|", section, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_every_error_code_is_described_with_its_status() -> None:
    assert table("### Errors") == set(errors.BY_CODE)
    for code, kind in errors.BY_CODE.items():
        assert f"| `{code}` | {kind.status} |" in PAGE
        assert kind.__doc__, f"{kind.__name__} does not say what it means"


def test_every_scope_is_described() -> None:
    scopes = {identity.USE, identity.READ_USAGE, identity.ADMIN_QUOTA, identity.ADMIN_POOL, identity.AGENT}
    assert table("### Scopes") == scopes


def test_every_metric_is_described() -> None:
    names = set()
    for collector in set(Metrics().registry._collector_to_names):
        name = collector._name  # type: ignore[attr-defined]
        names.add(f"{name}_total" if isinstance(collector, Counter) else name)
    assert table("## Operation") == names

"""The pool: what GPUs there are, and what of them is in use."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gpu_kernels.resources.base import Resource, Thousandths


class PoolClass(Resource, frozen=True):
    """The GPUs of one class together."""

    gpu_class: str
    gpus: int
    available: int
    allocatable_mib: Annotated[int, Meta(description="Of the largest one")]
    used_thousandths: Thousandths
    sizes: Annotated[tuple[str, ...], Meta(description="Sizes on offer")]


class PoolGpu(Resource, frozen=True, kw_only=True):
    """A GPU, what it has and what of it is in use; nobody is named."""

    agent: str
    uuid: str
    index: int
    gpu_class: str
    device: str
    name: str
    total_mib: int
    allocatable_mib: int
    used_mib: int
    used_thousandths: Thousandths
    available: Annotated[bool, Meta(description="Whether its agent answers")]


class Pool(Resource, frozen=True):
    """All GPUs."""

    classes: tuple[PoolClass, ...]
    gpus: tuple[PoolGpu, ...]
    queued: int

"""A software device and workers to attack."""

from tests.softgpu.conftest import device, pytest_collection_finish

__all__ = ["device", "pytest_collection_finish"]

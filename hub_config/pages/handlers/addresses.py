"""The addresses of the pages, made in one place; templates know them as ``to``."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from gpu_kernels.hub_config.pages.handlers.static import version_of


class Addresses:
    def __init__(self, prefix: str, hub_host: str, hub_prefix: str) -> None:
        self._prefix = prefix.rstrip("/")
        self._hub = f"{hub_host}{hub_prefix}"

    def page(self, *parts: str, **query: object) -> str:
        """``page("courses", "ml101")``; every part is quoted."""
        path = "/".join(quote(part, safe="") for part in parts)
        asked = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self._prefix}/{path}" + (f"?{urlencode(asked)}" if asked else "")

    def home(self) -> str:
        return self.page("")

    def course(self, name: str, **query: object) -> str:
        return self.page("courses", name, **query)

    def class_hours(self, name: str, **query: object) -> str:
        return self.page("courses", name, "class-hours", **query)

    def usage_table(self, name: str, **query: object) -> str:
        return self.page("courses", name, "usage.csv", **query)

    def lease(self, lease_id: str) -> str:
        return self.page("leases", lease_id)

    def server(self, name: str) -> str:
        return self.page("servers", name)

    def events(self) -> str:
        return self.page("events")

    def static(self, name: str) -> str:
        """A file of the pages, or of the hub's looks (``hub/...``), with a mark of its version."""
        return f"{self._prefix}/static/{name}?v={version_of(name)}"

    def hub(self, name: str = "") -> str:
        return self._hub + name

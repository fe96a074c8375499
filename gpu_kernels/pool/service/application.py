"""The routes of the API."""

from __future__ import annotations

import logging

from tornado.web import Application, RequestHandler

from gpu_kernels.pool.service import agents, leases, pool
from gpu_kernels.pool.service.base import Handler, Nowhere, Service

log = logging.getLogger("gpu_kernels.pool.requests")

LEASE = r"(?P<lease_id>[A-Za-z0-9_-]{1,64})"
NAME = r"(?P<name>[^/]{1,255})"

ROUTES: list[tuple[str, type[Handler]]] = [
    (r"/leases", leases.Leases),
    (r"/leases/renew", leases.Renew),
    (r"/leases/release", leases.ReleaseServer),
    (rf"/leases/{LEASE}", leases.OneLease),
    (rf"/leases/{LEASE}/release", leases.Release),
    (rf"/leases/{LEASE}/revoke", leases.Revoke),
    (r"/pool", pool.Pool),
    (r"/courses", pool.Courses),
    (rf"/courses/{NAME}", pool.OneCourse),
    (r"/agents", agents.Agents),
    (rf"/agents/{NAME}", agents.OneAgent),
    (rf"/agents/{NAME}/report", agents.Report),
    (r"/health", pool.Health),
    (r"/metrics", pool.MetricsPage),
]
"""Address below ``/api/v1``, and its handler."""


def make_application(service: Service, prefix: str = "/") -> Application:
    """The web application below ``prefix``; health and metrics answer at the prefix itself too."""
    base = "/" + prefix.strip("/")
    base = "" if base == "/" else base
    arguments = {"service": service}
    routes = [(f"{base}/api/v1{path}", handler, arguments) for path, handler in ROUTES]
    routes += [
        (f"{base}/health", pool.Health, arguments),
        (f"{base}/metrics", pool.MetricsPage, arguments),
    ]
    return Application(
        routes,
        default_handler_class=Nowhere,
        default_handler_args=arguments,
        log_function=_log_request,
    )


def _log_request(handler: RequestHandler) -> None:
    """One line a request, without query and headers: what is secret stands there."""
    request = handler.request
    level = logging.WARNING if handler.get_status() >= 500 else logging.DEBUG
    name = getattr(getattr(handler, "identity", None), "name", "-")
    milliseconds = 1000 * request.request_time()
    log.log(
        level, "%d %s %s %s %.1f ms", handler.get_status(), request.method, request.path, name, milliseconds
    )

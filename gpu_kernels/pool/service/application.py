"""The web application: the API's routes below the prefix, and what is said at every other address."""

from __future__ import annotations

import logging

from tornado.web import Application, RequestHandler

from gpu_kernels.pool.service import pool
from gpu_kernels.pool.service.base import VERSIONS, Nowhere, OtherVersion, Service
from gpu_kernels.pool.service.routes import ROUTES, pattern_of
from gpu_kernels.pool.service.versions import Document, Versions

log = logging.getLogger("gpu_kernels.pool.requests")


def make_application(service: Service, prefix: str = "/") -> Application:
    """The web application below ``prefix``; health and metrics answer at the prefix itself too."""
    base = "/" + prefix.strip("/")
    base = "" if base == "/" else base
    arguments = {"service": service}
    routes = [(f"{base}/api/v1{pattern_of(path)}", handler, arguments) for path, handler in ROUTES]
    routes += [
        (f"{base}/api/v1/openapi.json", Document, arguments),
        (f"{base}/api/?", Versions, arguments),
        (
            rf"{base}/api/(?!(?:{'|'.join(VERSIONS)})(?:/|$))(?P<version>[^/]*)(?:/.*)?",
            OtherVersion,
            arguments,
        ),
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

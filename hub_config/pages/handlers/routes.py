"""Every address below the service's prefix, and what answers there."""

from __future__ import annotations

from tornado.web import RequestHandler

from gpu_kernels.hub_config.pages.handlers import class_hours, course, events, home, lease, pool, records

NAME = r"([^/]{1,600})"

ROUTES: tuple[tuple[str, type[RequestHandler]], ...] = (
    (r"/?", home.Home),
    (r"/events", events.Events),
    (rf"/courses/{NAME}", course.Course),
    (rf"/courses/{NAME}/usage\.csv", course.UsageTable),
    (rf"/courses/{NAME}/class-hours", class_hours.ClassHours),
    (rf"/leases/{NAME}", lease.OneLease),
    (r"/pool", pool.Pool),
    (rf"/servers/{NAME}", pool.Server),
    (r"/history", records.History),
    (r"/audit", records.Audit),
)

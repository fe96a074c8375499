"""``/courses/NAME``: a course for those who teach it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from gpu_kernels.client import calls
from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.hub_config.pages.handlers.course_forms import CourseForms
from gpu_kernels.hub_config.pages.handlers.download import Download
from gpu_kernels.hub_config.pages.handlers.forms import Outcome
from gpu_kernels.hub_config.pages.handlers.plots import plots
from gpu_kernels.hub_config.pages.views import own, students
from gpu_kernels.hub_config.pages.views.plots import Picture
from gpu_kernels.hub_config.pages.views.rule_fields import RuleFields
from gpu_kernels.resources import courses
from gpu_kernels.vocabulary.roles import graded_course, grading_account


class Course(CourseForms):
    fragments: ClassVar[frozenset[str]] = frozenset({"summary", "students", "plots"})

    async def get(self, name: str) -> None:
        await self.page(Outcome())

    async def post(self, name: str) -> None:
        await self.carry_out(self.forms())

    async def page(self, outcome: Outcome) -> None:
        name = self.path_args[0]
        course, account, leases, usage, pool, grading = await asking.together(
            self.pool.course(name),
            asking.if_allowed(self.pool.account(name)),
            asking.leases(self.pool, course=name),
            self.pool.usage(
                since=self.monday(), course=name, by=("user", "gpu_class"), time_zone=str(self.lab.zone)
            ),
            self.pool.pool(),
            self.grading(name),
        )
        rules = course.rules
        shares = own.shares(course)
        student = self.get_query_argument("student", "")[:255]
        fields = RuleFields(account, rules)
        self.show(
            "course.html",
            status=outcome.status,
            outcome=outcome,
            course=course,
            rules=rules,
            fields=fields,
            student=student,
            override=fields.override(student),
            pictures=await self.pictures(name, shares),
            said={said.name for said in (account.properties if account else ()) if said.value},
            paused=rules.get("paused"),
            cut=len(leases) if leases.cut else 0,
            shares=shares,
            budgets=[budget for budget in own.budgets([course]) if budget.whose == "course"],
            grading=None if grading is None else grading.name,
            grading_shares=[] if grading is None else own.shares(grading),
            grading_budgets=[] if grading is None else own.budgets([grading]),
            students=students.students(
                leases,
                usage.sums,
                rules,
                page=self.page_number(),
                find=self.get_query_argument("find", "")[:100],
            ),
            find=self.get_query_argument("find", "")[:100],
            used_by_class=students.used_by_class(usage.sums),
            classes=pool.classes,
            month_ago=(datetime.now(self.lab.zone) - timedelta(days=30)).date().isoformat(),
        )

    async def pictures(self, name: str, shares: list[own.Share]) -> list[Picture]:
        """The plots, where they are shown: a live page asks for them more rarely than for the rest."""
        if not self.shows("plots"):
            return []
        most = {share.gpu_class: share.most for share in shares}
        return await plots(self.pool, name, most, self.lab.zone)

    async def grading(self, name: str) -> courses.Course | None:
        """The course's grading account, where there is one."""
        if graded_course(name) is not None:
            return None
        return await asking.if_allowed(self.pool.course(grading_account(name)))

    def monday(self) -> str:
        today = datetime.now(self.lab.zone).date()
        return (today - timedelta(days=today.weekday())).isoformat()

    def page_number(self) -> int:
        text = self.get_query_argument("page", "1")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1


class UsageTable(Download):
    """``/courses/NAME/usage.csv``: the controller's table, for a spreadsheet."""

    async def get(self, name: str) -> None:
        asked = {key: self.get_query_argument(key, "")[:40] or None for key in ("from", "to")}
        await self.pass_on(
            calls.usage_table(
                since=asked["from"], until=asked["to"], course=name, time_zone=str(self.lab.zone)
            ),
            "gpu-usage.csv",
        )

"""The quota tree against a naive one that adds everything up anew."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.pool.policy.quota import COURSE, FACULTY, INSTITUTION, Limits, Tree

V100 = "V100"


@dataclass
class Naive:
    """Everything from first principles: parents, quotas, and the list of leases."""

    capacity: int
    parents: dict[str, str | None]
    quotas: dict[str, Limits]
    leases: list[tuple[str, int]] = field(default_factory=list)

    def children(self, name: str) -> list[str]:
        return [child for child, parent in self.parents.items() if parent == name]

    def limits(self, name: str) -> Limits:
        if self.parents[name] is None:
            return self.quotas.get(name, Limits(nominal=self.capacity))
        return self.quotas.get(name, Limits(hard_limit=0) if name in COURSES else Limits())

    def ceiling(self, name: str) -> float:
        limits = self.limits(name)
        hard = float("inf") if limits.hard_limit is None else limits.hard_limit
        if self.parents[name] is None:
            return min(hard, limits.nominal)
        borrowing = float("inf") if limits.borrowing_limit is None else limits.borrowing_limit
        return min(hard, limits.nominal + borrowing)

    def wish(self, name: str) -> int:
        limits = self.limits(name)
        own = 0 if limits.lending_limit is None else limits.nominal - limits.lending_limit
        return max(own, sum(self.wish(child) for child in self.children(name)))

    def guaranteed(self, name: str) -> int:
        parent = self.parents[name]
        if parent is None:
            return int(self.ceiling(name))
        wished, has = sum(self.wish(child) for child in self.children(parent)), self.guaranteed(parent)
        mine = self.wish(name) if wished <= has else self.wish(name) * has // wished
        return int(min(mine, self.ceiling(name)))

    def use(self, name: str) -> int:
        own = sum(size for course, size in self.leases if course == name)
        return own + sum(self.use(child) for child in self.children(name))

    def demand(self, name: str) -> int:
        if name in COURSES:
            return self.use(name)
        return sum(max(self.guaranteed(child), self.demand(child)) for child in self.children(name))

    def admits(self, course: str, size: int) -> bool:
        """The rule itself, before and after."""
        path = [course]
        while (parent := self.parents[path[-1]]) is not None:
            path.append(parent)
        before = {name: self.demand(name) for name in path}
        self.leases.append((course, size))
        try:
            return all(
                self.demand(name) <= self.ceiling(name)
                or (self.demand(name) == before[name] and self.use(name) <= self.ceiling(name))
                for name in path
            )
        finally:
            self.leases.pop()


PARENTS: dict[str, str | None] = {
    "uni": None, "science": "uni", "arts": "uni", "physics": "science",
    "ml": "science", "lab": "physics", "film": "arts", "intro": "uni",
}  # fmt: skip
COURSES = ("ml", "lab", "film", "intro")
KIND = dict.fromkeys(PARENTS, FACULTY) | dict.fromkeys(COURSES, COURSE) | {"uni": INSTITUTION}
amounts = st.integers(0, 12)


@st.composite
def quotas(draw: st.DrawFn) -> Limits:
    nominal = draw(amounts)
    return Limits(
        nominal=nominal,
        borrowing_limit=draw(st.none() | amounts),
        lending_limit=draw(st.none() | st.integers(0, nominal)),
        hard_limit=draw(st.none() | st.integers(nominal, 15)),
    )


@st.composite
def pools(draw: st.DrawFn) -> tuple[Tree, Naive]:
    capacity = draw(st.integers(0, 30))
    given_quotas = draw(st.dictionaries(st.sampled_from([n for n in PARENTS if n != "uni"]), quotas()))
    made = Tree()
    for name, parent in PARENTS.items():
        made.put_account(
            name, INSTITUTION if parent is None else COURSE if name in COURSES else FACULTY, parent
        )
    made.set_capacity(V100, capacity)
    for name, limits in given_quotas.items():
        made.put_quota(name, V100, limits)
    return made, Naive(capacity, PARENTS, given_quotas)


STEPS = st.lists(st.tuples(st.sampled_from(COURSES), st.integers(1, 8), st.booleans()), max_size=14)


def same(made: Tree, naive: Naive) -> None:
    for name in PARENTS:
        assert made.use(name, V100) == naive.use(name)
        assert made.borrowed(name, V100) == max(0, naive.use(name) - naive.limits(name).nominal)
    for course in COURSES:
        room = made.room(course, V100)
        for size in {1, 2, room, room + 1} - {0}:
            if size > 0:
                assert naive.admits(course, size) == (size <= room), (course, size, room)
        levels = made.levels(course, V100)
        assert min(level.room for level in levels if level.room is not None) == room
        assert [level.room for level in levels if level.binding] == [room]
        for level in levels:
            assert level.guaranteed == naive.guaranteed(level.account)
            assert level.demand == naive.demand(level.account)


@given(pool=pools(), steps=STEPS)
@settings(max_examples=150, deadline=None)
def test_admitted_sequences_agree_with_the_naive_tree_and_never_exceed_a_limit(
    pool: tuple[Tree, Naive], steps: list[tuple[str, int, bool]]
) -> None:
    made, naive = pool
    for course, size, give_back in steps:
        if give_back and naive.leases:
            gone = naive.leases.pop(size % len(naive.leases))
            made.add_use(gone[0], V100, -gone[1])
        elif made.room(course, V100) >= size:
            made.add_use(course, V100, size)
            naive.leases.append((course, size))
        for name in PARENTS:
            assert naive.use(name) <= naive.ceiling(name)
            assert naive.demand(name) <= naive.ceiling(name) or name != "uni"
    same(made, naive)


@given(pool=pools(), steps=STEPS, shrunk=st.integers(0, 30), other=pools())
@settings(max_examples=150, deadline=None)
def test_after_any_change_of_capacity_and_quotas_the_trees_agree_again(
    pool: tuple[Tree, Naive], steps: list[tuple[str, int, bool]], shrunk: int, other: tuple[Tree, Naive]
) -> None:
    made, naive = pool
    for course, size, _ in steps:
        made.add_use(course, V100, size)
        naive.leases.append((course, size))
    made.set_capacity(V100, shrunk)
    naive.capacity = shrunk
    same(made, naive)
    for name in naive.quotas.keys() - other[1].quotas.keys():
        made.drop_quota(name, V100)
    for name, limits in other[1].quotas.items():
        made.put_quota(name, V100, limits)
    naive.quotas = other[1].quotas
    same(made, naive)


@given(pool=pools(), steps=STEPS)
@settings(max_examples=100, deadline=None)
def test_what_is_guaranteed_is_there_whatever_others_were_admitted(
    pool: tuple[Tree, Naive], steps: list[tuple[str, int, bool]]
) -> None:
    made, _naive = pool
    for course, size, _ in steps:
        if made.room(course, V100) >= size:
            made.add_use(course, V100, size)
    for course in COURSES:
        (level,) = (level for level in made.levels(course, V100) if level.account == course)
        assert made.room(course, V100) >= level.guaranteed - level.use


@given(steps=STEPS, nominals=st.tuples(*[amounts] * len(COURSES)))
@settings(max_examples=100, deadline=None)
def test_nominal_is_there_once_others_have_returned_what_they_borrowed(
    steps: list[tuple[str, int, bool]], nominals: tuple[int, ...]
) -> None:
    nominal = dict(zip(COURSES, nominals, strict=True))
    made = Tree()
    for name, parent in PARENTS.items():
        made.put_account(
            name, INSTITUTION if parent is None else COURSE if name in COURSES else FACULTY, parent
        )
    made.set_capacity(V100, sum(nominals))
    for name, amount in nominal.items():
        made.put_quota(name, V100, Limits(nominal=amount))
    for course, size, _ in steps:
        if made.room(course, V100) >= size:
            made.add_use(course, V100, size)
    for course in COURSES:
        made.add_use(course, V100, -made.borrowed(course, V100))
    for course in COURSES:
        assert made.room(course, V100) >= nominal[course] - made.use(course, V100)


@given(pool=pools(), steps=STEPS, random=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_taking_and_giving_back_does_not_matter(
    pool: tuple[Tree, Naive], steps: list[tuple[str, int, bool]], random: object
) -> None:
    made, _naive = pool
    made.room("ml", V100)
    other = made.copy()
    shuffled = list(steps)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for course, size, _ in steps:
        made.add_use(course, V100, size)
    for course, size, _ in shuffled:
        other.add_use(course, V100, size)
    assert [made.levels(c, V100) for c in COURSES] == [other.levels(c, V100) for c in COURSES]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for course, size, _ in shuffled:
        made.add_use(course, V100, -size)
    assert all(made.use(name, V100) == 0 for name in PARENTS)

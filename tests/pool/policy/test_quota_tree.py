"""The arithmetic of the quota tree: golden tables, and a naive second implementation that works everything
out anew from the list of leases.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_kernels.errors import Conflict, InvalidRequest
from gpu_kernels.pool.policy.quota import COURSE, FACULTY, INSTITUTION, Limits, Tree

V100 = "V100"


def tree(capacity: int = 1000, **quotas: Limits) -> Tree:
    """A university with science (ml, nlp) and arts (film), and a course without a faculty, intro."""
    made = Tree()
    made.put_account("uni", INSTITUTION)
    for faculty in ("science", "arts"):
        made.put_account(faculty, FACULTY, "uni")
    for course, parent in (("ml", "science"), ("nlp", "science"), ("film", "arts"), ("intro", "uni")):
        made.put_account(course, COURSE, parent)
    made.set_capacity(V100, capacity)
    for name, limits in quotas.items():
        made.put_quota(name, V100, limits)
    return made


def rooms(made: Tree) -> dict[str, int]:
    return {name: made.room(name, V100) for name in ("ml", "nlp", "film", "intro")}


# --- golden tables

FREE = Limits()


def test_a_limit_alone_borrows_all_that_is_free_up_to_it() -> None:
    made = tree(1000, ml=Limits(hard_limit=600), nlp=Limits(hard_limit=600))
    assert rooms(made) == {"ml": 600, "nlp": 600, "film": 0, "intro": 0}
    made.add_use("ml", V100, 600)
    assert rooms(made) == {"ml": 0, "nlp": 400, "film": 0, "intro": 0}
    assert made.borrowed("ml", V100) == 600
    assert (made.use("science", V100), made.use("uni", V100), made.use("arts", V100)) == (600, 600, 0)


def test_what_is_not_lent_is_kept_free_of_others() -> None:
    made = tree(1000, ml=Limits(nominal=400, lending_limit=100), film=FREE)
    assert rooms(made)["film"] == 700
    made.add_use("film", V100, 700)
    assert rooms(made)["ml"] == 300
    made.add_use("ml", V100, 300)
    assert rooms(made) == {"ml": 0, "nlp": 0, "film": 0, "intro": 0}


@pytest.mark.parametrize(
    ("limits", "others", "room"),
    [
        (Limits(nominal=300), 0, 1000),
        (Limits(nominal=300), 900, 100),
        (Limits(nominal=300, borrowing_limit=0), 0, 300),
        (Limits(nominal=300, borrowing_limit=0), 900, 100),
        (Limits(nominal=300, borrowing_limit=0, lending_limit=0), 700, 300),
        (Limits(nominal=300, borrowing_limit=200), 0, 500),
        (Limits(nominal=300, borrowing_limit=200, hard_limit=400), 0, 400),
        (Limits(nominal=300, borrowing_limit=200, lending_limit=0), 600, 400),
        (Limits(borrowing_limit=50), 0, 50),
        (Limits(hard_limit=0), 0, 0),
        (Limits(nominal=300, lending_limit=300), 1000, 0),
    ],
)
def test_room(limits: Limits, others: int, room: int) -> None:
    made = tree(1000, ml=limits, film=FREE)
    made.add_use("film", V100, others)
    assert made.room("ml", V100) == room


def test_a_faculty_keeps_what_its_courses_are_guaranteed() -> None:
    made = tree(1000, science=Limits(nominal=0), ml=Limits(nominal=600, lending_limit=0), film=FREE)
    assert rooms(made)["film"] == 400


def test_a_faculty_shares_its_own_unlent_part_among_its_courses() -> None:
    made = tree(
        1000,
        science=Limits(nominal=500, borrowing_limit=0, lending_limit=0),
        ml=Limits(nominal=200, lending_limit=0),
        nlp=FREE,
        film=FREE,
    )
    assert rooms(made) == {"ml": 500, "nlp": 300, "film": 500, "intro": 0}
    made.add_use("film", V100, 500)
    made.add_use("nlp", V100, 300)
    assert rooms(made) == {"ml": 200, "nlp": 0, "film": 0, "intro": 0}


def test_a_class_without_a_quota_is_not_for_the_course_unless_an_account_above_says_so() -> None:
    made = tree(1000)
    assert made.room("ml", V100) == 0
    assert made.classes("ml") == ()
    made.put_account("uni", INSTITUTION, None, {V100: 100})
    assert made.room("ml", V100) == 100
    made.put_account("science", FACULTY, "uni", {V100: 250})
    assert (made.room("ml", V100), made.room("film", V100)) == (250, 100)
    made.put_account("arts", FACULTY, "uni", {"": 70, "A100": 5})
    assert (made.room("film", V100), made.classes("film")) == (70, ("A100", V100))
    made.put_quota("ml", V100, Limits(hard_limit=20))
    assert made.room("ml", V100) == 20
    assert made.classes("ml") == (V100,)


def test_a_lost_server_makes_room_negative_and_throws_nothing() -> None:
    made = tree(1000, ml=FREE, film=Limits(nominal=200, lending_limit=0))
    made.add_use("ml", V100, 800)
    made.set_capacity(V100, 500)
    assert rooms(made)["ml"] == -500
    assert rooms(made)["film"] == -300
    made.add_use("ml", V100, -400)
    assert rooms(made)["film"] == 100, "what is free goes to whom it was guaranteed"
    assert rooms(made)["ml"] == -100
    made.set_capacity(V100, 0)
    assert rooms(made) == {"ml": -400, "nlp": -400, "film": -400, "intro": -400}


def test_guarantees_of_a_shrunken_pool_shrink_in_proportion() -> None:
    own = Limits(nominal=500, lending_limit=0)
    made = tree(1500, ml=own, nlp=own, film=own)
    assert rooms(made) == {"ml": 500, "nlp": 500, "film": 500, "intro": 0}
    made.set_capacity(V100, 900)
    assert rooms(made) == {"ml": 300, "nlp": 300, "film": 300, "intro": 0}


def test_a_limit_below_the_use_is_allowed_and_said() -> None:
    made = tree(1000, ml=Limits(hard_limit=500))
    made.add_use("ml", V100, 400)
    assert made.notes("ml", V100) == ()
    made.put_quota("ml", V100, Limits(hard_limit=100))
    assert made.room("ml", V100) == -300
    (note,) = made.notes("ml", V100)
    assert note.startswith("ml holds 0.4 V100, more than the 0.1 V100 that it may hold now.")


def test_more_nominal_than_there_is_is_said() -> None:
    made = tree(1000, ml=Limits(nominal=800), nlp=Limits(nominal=800), science=Limits(nominal=1000))
    (note,) = made.notes("science", V100)
    assert "science has 1 V100" in note
    assert "1.6 V100 as nominal" in note


def test_levels_name_the_binding_account() -> None:
    made = tree(
        1000, science=Limits(nominal=300, borrowing_limit=100), ml=FREE, nlp=Limits(hard_limit=350), film=FREE
    )
    made.add_use("ml", V100, 150)
    levels = {level.account: level for level in made.levels("nlp", V100)}
    assert list(levels) == ["uni", "science", "nlp"]
    assert [(level.room, level.use, level.binding) for level in levels.values()] == [
        (850, 150, False),
        (250, 150, True),
        (350, 0, False),
    ]
    made.add_use("film", V100, 750)
    assert [level.account for level in made.levels("nlp", V100) if level.binding] == ["uni"]
    made.put_quota("nlp", V100, Limits(hard_limit=0))
    assert [level.account for level in made.levels("nlp", V100) if level.binding] == ["nlp"]


def test_a_trial_leaves_nothing_and_a_copy_is_its_own() -> None:
    made = tree(1000, ml=Limits(nominal=300, lending_limit=0), film=FREE)
    before = rooms(made)
    other = made.copy()
    with made.trial():
        made.add_use("ml", V100, 400)
        with made.trial():
            made.add_use("film", V100, 600)
            assert rooms(made)["ml"] == 0
        assert rooms(made)["film"] == 600
        other.add_use("ml", V100, 1000)
    assert rooms(made) == before
    with pytest.raises(ValueError, match="within a trial"), made.trial():
        made.set_capacity(V100, 5)


# --- what is refused

BAD_ACCOUNTS = [
    (("x", "department", "uni"), "an institution, a faculty, or a course"),
    (("x", COURSE, None), "must have a parent"),
    (("x", COURSE, "nowhere"), "no such account"),
    (("x", COURSE, "ml"), "which is a course"),
    (("ml", COURSE, "ml"), "which is a course"),
    (("science", FACULTY, "science"), "itself belongs to science"),
    (("science", FACULTY, "deep"), "itself belongs to science"),
    (("ml", FACULTY, "uni"), "is there already, as course"),
    (("x", INSTITUTION, None), "uni is the institution"),
    (("x", INSTITUTION, "uni"), "has no parent"),
]


@pytest.mark.parametrize(("account", "why"), BAD_ACCOUNTS)
def test_a_tree_that_would_be_none_is_refused_and_nothing_changes(
    account: tuple[str, str, str | None], why: str
) -> None:
    made = tree(1000, ml=Limits(nominal=100))
    made.put_account("deep", FACULTY, "science")
    before = rooms(made)
    with pytest.raises(InvalidRequest, match=why):
        made.put_account(*account)
    assert rooms(made) == before
    assert made.path("ml") == ("uni", "science", "ml")


def test_the_tree_is_bounded_in_depth_also_when_a_branch_is_moved() -> None:
    made = tree()
    made.put_account("a0", FACULTY, "uni")
    for depth in range(1, 6):
        made.put_account(f"a{depth}", FACULTY, f"a{depth - 1}")
    made.put_account("deepest", COURSE, "a5")
    with pytest.raises(InvalidRequest, match="too deep"):
        made.put_account("a0", FACULTY, "science")


BAD_QUOTAS = [
    (Limits(nominal=100, lending_limit=200), r"cannot lend 0\.2 V100: its nominal is 0\.1 V100"),
    (Limits(nominal=200, hard_limit=100), r"never hold more than 0\.1 V100"),
    (Limits(nominal=-1), "The nominal of ml must be 0 to"),
    (Limits(borrowing_limit=10**12), "The borrowing limit of ml must be"),
]


@pytest.mark.parametrize(("limits", "why"), BAD_QUOTAS)
def test_a_quota_that_contradicts_itself_is_refused_and_the_old_one_stays(limits: Limits, why: str) -> None:
    made = tree(1000, ml=Limits(hard_limit=70))
    with pytest.raises(InvalidRequest, match=why):
        made.put_quota("ml", V100, limits)
    assert made.room("ml", V100) == 70


def test_the_institution_has_nobody_to_borrow_from() -> None:
    with pytest.raises(InvalidRequest, match="nobody to borrow from"):
        tree(uni=Limits(nominal=1000, borrowing_limit=1))


def test_an_institution_may_give_less_than_the_pool_has() -> None:
    made = tree(1000, uni=Limits(nominal=600), ml=FREE)
    assert made.room("ml", V100) == 600


def test_what_is_in_use_or_has_children_is_not_removed() -> None:
    made = tree(ml=FREE)
    made.add_use("ml", V100, 20)
    with pytest.raises(Conflict, match=r"ml cannot be removed: it holds 0\.02 V100"):
        made.drop_account("ml")
    with pytest.raises(Conflict, match="ml, nlp belong to it"):
        made.drop_account("science")
    made.add_use("ml", V100, -20)
    made.drop_account("ml")
    assert "ml" not in made
    assert made.use("uni", V100) == 0


def test_a_branch_that_moves_takes_its_use_along() -> None:
    made = tree(ml=FREE)
    made.add_use("ml", V100, 20)
    made.put_account("ml", COURSE, "arts")
    assert (made.use("science", V100), made.use("arts", V100), made.use("uni", V100)) == (0, 20, 20)


def test_more_is_never_given_back_than_was_taken() -> None:
    made = tree(ml=FREE)
    with pytest.raises(ValueError, match="would hold -1"):
        made.add_use("ml", V100, -1)
    with pytest.raises(ValueError, match="is no course"):
        made.add_use("science", V100, 1)


# --- against a naive second implementation


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

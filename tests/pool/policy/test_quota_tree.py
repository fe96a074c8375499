"""The arithmetic of the quota tree: golden tables, and a naive second implementation that works everything
out anew from the list of leases.
"""

from __future__ import annotations

import pytest

from gpu_kernels.errors import Conflict, InvalidRequest
from gpu_kernels.pool.policy.quota import COURSE, FACULTY, INSTITUTION, Limits, Tree

pytestmark = pytest.mark.quick

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

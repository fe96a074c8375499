"""What people type in the admin panel, and what they are told when it cannot be read."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_kernels.pool.policy.quota import Limits
from gpu_kernels.vocabulary.properties import PROPERTIES, BadProperty, Wanted, read, wanted
from gpu_kernels.vocabulary.rules import RULES

pytestmark = pytest.mark.quick

GOOD = [
    ("gpu_limit", "0.5", "V100: 0.5"),
    ("gpu_limit", 2, "V100: 2"),
    ("gpu_limit", 0.25, "V100: 0.25"),
    ("gpu_limit", "V100: 0.5, A100: 2", "A100: 2, V100: 0.5"),
    ("gpu_limit", " V100=0.500;A100 : 2 ", "A100: 2, V100: 0.5"),
    ("gpu_limit", "0.5 V100, 2 A100", "A100: 2, V100: 0.5"),
    ("gpu_limit", "V100: 0", "V100: 0"),
    ("gpu_nominal", "1", "V100: 1"),
    ("gpu_borrowing", "V100: 0", "V100: 0"),
    ("gpu_lending", "V100: 0.125", "V100: 0.125"),
    ("gpu_weight", "2.5", "2.5"),
    ("gpu_max_leases", "3", "3"),
    ("gpu_max_leases", "none", "none"),
    ("gpu_max_size", "0.1", "V100: 0.1"),
    ("gpu_hours_per_week", "40", "40"),
    ("gpu_hours_per_week", "40 h", "40"),
    ("gpu_user_hours_per_week", 4.5, "4.5"),
    ("gpu_hours_rolling", "8 in 24 h", "8 in 24 h"),
    ("gpu_user_hours_rolling", "0.5 h in 24h", "0.5 in 24 h"),
    ("gpu_longest_life", "12 h", "12 h"),
    ("gpu_longest_life", "1.5h", "90 min"),
    ("gpu_idle", "30 min", "30 min"),
    ("gpu_idle", "None", "none"),
    ("gpu_course_limit", "V100: 0.1", "V100: 0.1"),
    ("gpu_kind", "faculty", "faculty"),
    ("gpu_parent", "science", "science"),
]


@pytest.mark.parametrize(("name", "value", "canonical"), GOOD)
def test_good_texts(name: str, value: object, canonical: str) -> None:
    assert read(name, value, {"V100"}) == canonical
    assert read(name, canonical, ()) == canonical, "it reads the same whatever classes the pool has"


BAD = [
    ("gpu_limit", "0,5", "cannot be read as '0,5': write decimals with a point, as in '0.5'"),
    ("gpu_limit", "V100: 0,5", "write decimals with a point, as in 'V100: 0.5'"),
    ("gpu_limit", "", "cannot be read as ''. It must be a number of GPUs"),
    ("gpu_limit", "lots", "cannot be read as 'lots'"),
    ("gpu_limit", "-1", "cannot be read"),
    ("gpu_limit", "0.0005", "up to three decimal places"),
    ("gpu_limit", "1e3", "cannot be read"),
    ("gpu_limit", "V100: 1, V100: 2", "cannot be read"),
    ("gpu_limit", "GPU: 1", "cannot be read"),
    ("gpu_limit", "V100: 999999999", "cannot be read"),
    ("gpu_limit", True, "must be a text"),
    ("gpu_limit", {"V100": 1}, "must be a text"),
    ("gpu_limit", None, "must be a text"),
    ("gpu_limit", "x" * 1000, "..."),
    ("gpu_limt", "1", "There is no property gpu_limt; did you mean gpu_limit?"),
    ("gpu_qqqqqq", "1", "there are gpu_limit, gpu_nominal"),
    ("gpu_weight", "0", "a number from 0.001 to 1000"),
    ("gpu_max_leases", "2.5", "a whole number"),
    ("gpu_max_leases", "999999", "from 0 to 10000"),
    ("gpu_hours_rolling", "8", "'8 in 24 h'"),
    ("gpu_hours_rolling", "8 in 1000 h", "hours from 1 to 336"),
    ("gpu_longest_life", "12", "a time with its unit"),
    ("gpu_longest_life", "0 h", "seconds from 1 to"),
    ("gpu_longest_life", "12 parsecs", "a time with its unit"),
    ("gpu_kind", "department", "course, faculty or institution"),
]


@pytest.mark.parametrize(("name", "value", "why"), BAD)
def test_bad_texts_say_what_was_read_and_what_is_allowed(name: str, value: object, why: str) -> None:
    with pytest.raises(BadProperty) as caught:
        read(name, value, {"V100"})
    assert why in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("classes", "why"),
    [((), "the pool has no GPU as yet: name the class"), (("V100", "A100"), "the pool has A100, V100: name")],
)
def test_a_bare_number_needs_a_pool_of_one_class(classes: tuple[str, ...], why: str) -> None:
    with pytest.raises(BadProperty, match=why):
        read("gpu_limit", "0.5", classes)


def test_every_rule_has_its_property() -> None:
    assert {made.rule for made in PROPERTIES.values() if made.rule} == set(RULES) - {"overrides"}


def test_every_quota_field_has_its_property() -> None:
    assert {made.quota for made in PROPERTIES.values() if made.quota} == set(Limits.__slots__)


@pytest.mark.parametrize("name", PROPERTIES)
def test_every_example_can_be_read(name: str) -> None:
    assert read(name, PROPERTIES[name].example, {"V100"})


def test_what_a_group_says_together() -> None:
    texts = {
        "gpu_limit": "A100: 1, V100: 0.5",
        "gpu_nominal": "V100: 0.2",
        "gpu_parent": "science",
        "gpu_weight": "2",
        "gpu_idle": "30 min",
        "gpu_max_leases": "none",
        "gpu_user_hours_rolling": "2 in 24 h",
    }
    said = wanted(texts)
    assert said == Wanted(
        parent="science",
        weight=2.0,
        rules={"idle": 1800, "max_leases": None, "user_hours_rolling": {"hours": 2.0, "window": 24}},
        limits={"A100": {"hard_limit": 1000}, "V100": {"hard_limit": 500, "nominal": 200}},
    )
    assert said.quota("V100") == Limits(nominal=200, hard_limit=500)


@given(
    name=st.sampled_from(sorted(PROPERTIES)),
    text=st.one_of(
        st.text(max_size=80),
        st.text(alphabet=string.digits + ".,:; VA10hmin", max_size=30),
        st.integers(),
        st.floats(),
        st.booleans(),
        st.none(),
        st.lists(st.integers()),
    ),
)
def test_any_text_either_reads_the_same_again_or_is_bad(name: str, text: object) -> None:
    try:
        canonical = read(name, text, {"V100"})
    except BadProperty:
        return
    assert read(name, canonical, ()) == canonical
    wanted({name: canonical})

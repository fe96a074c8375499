import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyterhub.spawner import SpawnException

from gpu_kernels.spawner.courses import NO_COURSE, choose_course, course_in_form, courses_of, options_form
from gpu_kernels.vocabulary.roles import Patterns

pytestmark = pytest.mark.quick

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)


def test_groups_are_courses():
    assert courses_of(["ml101", "algo"]) == ["algo", "ml101"]


def test_instructors_may_use_their_own_course():
    assert courses_of(["ml101-instructors"]) == ["ml101"]


def test_a_course_counts_once_for_instructors_who_are_students_too():
    assert courses_of(["ml101", "ml101-instructors"]) == ["ml101"]


def test_courses_are_read_from_the_names_of_a_course_tool():
    groups = ["nbgrader-ml101", "formgrade-algo", "gpu-admins"]
    assert courses_of(groups, patterns=Patterns.of("nbgrader")) == ["algo", "ml101"]


def test_other_groups_are_no_courses_where_the_courses_are_known():
    assert courses_of(["ml101", "gpu-admins"], known=["ml101"]) == ["ml101"]


@given(st.lists(names))
def test_courses_are_in_order_and_unique(groups):
    courses = courses_of(groups)
    assert courses == sorted(set(courses))


def test_the_only_course_needs_no_choice():
    assert choose_course(["ml101"], None) == "ml101"


def test_a_person_in_no_course_may_start_a_server_without_gpus():
    assert choose_course([], None) == NO_COURSE


def test_a_person_may_choose_to_go_without_gpus():
    assert choose_course(["algo", "ml101"], NO_COURSE) == NO_COURSE


def test_several_courses_and_no_choice_is_refused_with_the_choice():
    with pytest.raises(SpawnException) as refusal:
        choose_course(["algo", "ml101"], None)
    assert "algo, ml101" in refusal.value.message
    assert refusal.value.reason == "course_not_chosen"


def test_anothers_course_is_refused_and_ones_own_are_named():
    with pytest.raises(SpawnException) as refusal:
        choose_course(["ml101"], "algo")
    assert "'algo'" in refusal.value.message
    assert "Your courses: ml101." in refusal.value.message
    assert refusal.value.status_code == 403


@pytest.mark.parametrize("wanted", [7, ["ml101"], {"name": "ml101"}, True])
def test_a_course_that_is_no_text_is_refused(wanted):
    with pytest.raises(SpawnException, match="course_malformed"):
        choose_course(["ml101"], wanted)


def test_a_long_course_name_does_not_flood_the_page():
    with pytest.raises(SpawnException) as refusal:
        choose_course(["ml101"], "x" * 100_000)
    assert len(refusal.value.message) < 300


@given(st.lists(names, unique=True), st.none() | names)
def test_whoever_gets_a_course_is_in_it(courses, wanted):
    try:
        course = choose_course(courses, wanted)
    except SpawnException:
        return
    assert course == NO_COURSE or course in courses


def test_there_is_no_form_without_a_choice():
    assert options_form([]) == ""
    assert options_form(["ml101"]) == ""
    assert options_form(["ml101"], remembered="ml101") == ""


def test_the_form_offers_each_course_and_none():
    form = options_form(["algo", "ml101"], remembered="ml101")
    assert '<option value="algo">algo</option>' in form
    assert '<option value="ml101" selected>ml101</option>' in form
    assert '<option value="">' in form


def test_a_remembered_course_that_was_left_is_a_choice_again():
    assert '<option value="ml101">' in options_form(["ml101"], remembered="algo")


def test_course_names_cannot_inject_markup():
    assert "<script>" not in options_form(["<script>", '"><b>'])


def test_the_form_becomes_user_options():
    assert course_in_form({"course": ["ml101"], "other": ["1"]}) == {"course": "ml101"}
    assert course_in_form({"course": [""]}) == {"course": ""}
    assert course_in_form({}) == {}

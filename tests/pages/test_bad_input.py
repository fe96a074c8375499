"""Forms and addresses as somebody sends them who means no good."""

import httpx
import pytest

from gpu_kernels.hub_config.pages.app import MOST_POSTED
from tests.pages.site import NAVIGATE, PREFIX, plain
from tests.pool.controller import TOKENS, reserve

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize("page", ["", "courses/ml101", "courses/ml101/class-hours", "servers/gpu1"])
@pytest.mark.parametrize("xsrf", [{}, {"_xsrf": "forged"}, {"_xsrf": "2|a|b|c"}])
def test_a_form_without_the_right_xsrf_token_changes_nothing(visit, controller, page, xsrf):
    root = visit("root")
    with controller.client("root") as pool:
        before = pool.course("ml101").limits
        form = {"do": "limit", "limit.V100": "0.9", "standing": "draining", **xsrf}
        answer = root.http.post(PREFIX + page, data=form, headers=NAVIGATE)
        assert answer.status_code == 403
        assert pool.course("ml101").limits == before


def test_one_visitors_xsrf_token_is_not_anothers(visit):
    form = {"do": "limit", "limit.V100": "0.9", "_xsrf": visit("ada").xsrf()}
    assert visit("grace").http.post(f"{PREFIX}courses/ml101", data=form, headers=NAVIGATE).status_code == 403


@pytest.mark.parametrize("who", ["ada", "grace"])
def test_a_form_for_another_course_is_refused_by_the_controller(visit, controller, who):
    answer = visit(who).post("courses/cv202", do="limit", **{"limit.V100": "0.9"})
    assert answer.status_code == 403
    with controller.client("root") as pool:
        assert pool.course("cv202").limits == {"V100": 1000}


@pytest.mark.parametrize(
    "typed", ["1e9", "-1", "nan", "inf", "0x10", "\u0661", "1000000000", "0.0001", "a" * 41, SCRIPT]
)
def test_a_limit_that_is_no_amount_comes_back_at_its_field_as_it_was_typed(visit, typed):
    page = visit("grace").post("courses/ml101", do="limit", **{"limit.V100": typed})
    assert page.status_code == 422
    assert 'id="limit-limit.V100-fault"' in page.text
    assert 'aria-invalid="true"' in page.text
    assert SCRIPT not in page.text
    if typed.isascii() and "<" not in typed:
        assert f'value="{typed}"' in page.text


@pytest.mark.parametrize(
    "field", [{"max_leases": "1e9"}, {"max_leases": "99999999"}, {"idle": "0"}, {"longest_life": "10000"}]
)
def test_a_rule_beyond_its_bounds_comes_back_at_its_field(visit, field):
    page = visit("grace").post("courses/ml101", do="rules", **field)
    assert page.status_code == 422
    assert f'id="rules-{next(iter(field))}-fault"' in page.text


@pytest.mark.parametrize("gpu_class", [SCRIPT, "", "V100 ", "x" * 300, "../V100"])
def test_a_limit_of_a_class_that_is_none_is_refused(visit, gpu_class):
    page = visit("grace").post("courses/ml101", do="limit", **{f"limit.{gpu_class}": "0.5"})
    assert page.status_code in (400, 409)
    assert SCRIPT not in page.text


@pytest.mark.parametrize("week", ["9999-W52", "0001-W01", "1969-W01", "2026-W99", "-W", SCRIPT])
def test_a_week_that_has_none_around_it_is_this_one(visit, week):
    page = visit("grace").see(f"courses/ml101/class-hours?week={week}")
    assert page.status_code == 200
    assert SCRIPT not in page.text


@pytest.mark.parametrize("until", ["9999-12-31T23:59", "0001-01-01T00:00", "1969-12-31T00:00", "never"])
def test_a_time_that_no_clock_can_show_comes_back_at_its_field(visit, until):
    form = {"user": "eve", "override.max_leases": "1", "until": until}
    page = visit("grace").post("courses/ml101", do="override", action="set", **form)
    assert page.status_code == 422
    assert 'id="override-until-fault"' in page.text


@pytest.mark.parametrize(
    "page", ["courses/%2E%2E", "leases/%2E%2E", "courses/%2E", "courses/%2E%2E/class-hours"]
)
def test_a_name_of_points_is_a_name_and_leads_nowhere_else(visit, page):
    assert visit("root").see(page).status_code == 404


@pytest.mark.parametrize("do", ["", "everything", "__init__", SCRIPT])
def test_a_form_that_there_is_not_is_refused(visit, do):
    page = visit("root").post("courses/ml101", do=do)
    assert page.status_code == 400
    assert SCRIPT not in page.text


def test_script_text_in_names_is_text_on_every_page(visit, controller, gpu):
    with controller.client("ada") as ada:
        lease = reserve(ada, f"{SCRIPT}.ipynb")
        gpu.carry_out()
        try:
            for who, page in [
                ("ada", ""),
                ("grace", "courses/ml101"),
                ("root", f"courses/ml101?find={SCRIPT}"),
                ("root", "pool"),
                ("root", f"leases/{lease.id}"),
                ("root", f"history?course={SCRIPT}"),
                ("root", f"audit?subject={SCRIPT}"),
                ("root", f"courses/{SCRIPT.replace('/', '%2F')}"),
                ("root", f"courses/ml101?student={SCRIPT}"),
                ("ada", f"?done={SCRIPT}"),
            ]:
                answer = visit(who).see(page)
                assert SCRIPT not in answer.text, page
            assert "&lt;script&gt;alert(1)&lt;/script&gt;.ipynb" in visit("ada").see("").text
        finally:
            ada.release(lease.id, lease.holder)
            gpu.carry_out()


def test_every_answer_forbids_scripts_that_are_no_file_of_ours(visit):
    for page in ("", "nowhere", "pool"):
        policy = visit("ada").see(page).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_pages_have_no_inline_script_or_style(visit):
    for page in (
        "",
        "courses/ml101",
        "courses/ml101/class-hours",
        "pool",
        "servers/gpu1",
        "audit",
        "nowhere",
    ):
        text = visit("root").see(page).text
        assert " style=" not in text
        assert " onclick" not in text
        assert text.count("<script") == text.count("<script src=")


@pytest.mark.parametrize("length", [MOST_POSTED + 1, 2_000_000, 20_000_000])
@pytest.mark.parametrize("who", ["root", None])
def test_a_body_longer_than_any_form_is_refused_in_words(site, visit, who, length):
    """The attack: 2 MB to the pages were answered by the proxy, with 503."""
    send = httpx.post if who is None else visit(who).http.post
    answer = send(f"{site.url}{PREFIX}courses/ml101", content=b"a" * length, timeout=60)
    assert answer.status_code == 413
    assert "What you sent is too long" in plain(answer)
    assert visit("root").see("pool").status_code == 200


def test_a_form_of_the_usual_size_is_read(visit):
    assert visit("root").post("courses/ml101", do="pause", paused="a" * 400).status_code == 422


def test_addresses_that_are_none_are_refused_in_words(visit):
    for page in (
        "courses/",
        "courses//",
        "leases/" + "a" * 700,
        "%2e%2e/hub",
        "static/../app.py",
        "servers/nope",
    ):
        answer = visit("root").see(page)
        assert answer.status_code in (403, 404), page
        assert "Traceback" not in answer.text


def test_a_token_that_the_controller_does_not_take_ends_the_session_in_words(visit, monkeypatch):
    monkeypatch.setitem(TOKENS, "mallory", {"scopes": ["custom:gpu:admin:pool"]})
    page = visit("mallory").see("pool")
    assert page.status_code == 403
    assert "Your session is over" in plain(page)
    assert "gpu-lab" in page.headers["set-cookie"]

"""Each page for those it is for, before a real controller; and what the others are told."""

import re
from html import unescape

import httpx
import pytest

from gpu_kernels.errors import AgentElsewhere, CoursePaused, Refused
from gpu_kernels.hub_config.pages.handlers import asking
from gpu_kernels.pool.service import usage
from tests.pages.site import PREFIX, HubUser, in_days, plain
from tests.pool.controller import Agent, reserve


@pytest.fixture
def lease(controller, gpu):
    ada = controller.client("ada")
    lease = reserve(ada, "first_steps.ipynb")
    gpu.carry_out()
    yield lease
    ada.release(lease.id, lease.holder)
    gpu.carry_out()


def test_a_student_sees_the_own_kernel_and_gives_it_back(visit, lease, gpu):
    ada = visit("ada")
    page = ada.see("")
    assert page.status_code == 200
    assert "0.02 V100" in plain(page)
    assert "first_steps.ipynb" in plain(page)
    assert "You have no slice" not in plain(page)
    answer = ada.post("", do="release", lease=lease.id)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}?done=released")
    assert "The slice was given back." in plain(ada.see("?done=released"))
    gpu.carry_out()
    assert "first_steps.ipynb" not in plain(ada.see(""))


def test_an_instructor_sees_who_holds_what_of_the_own_course(visit, lease):
    page = visit("grace").see("courses/ml101")
    assert page.status_code == 200
    assert "ada" in plain(page)
    assert "first_steps.ipynb" in plain(page)


def test_an_instructor_sets_the_limit_which_holds_for_the_next_request(visit, controller):
    grace = visit("grace")
    answer = grace.post("courses/ml101", do="limit", **{"limit.V100": "0.25"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PREFIX}courses/ml101?done=limit")
    with controller.client("grace") as pool:
        assert pool.course("ml101").limits == {"V100": 250}
    grace.post("courses/ml101", do="limit", **{"limit.V100": "0.1"})


def test_an_instructor_tightens_rules_and_keeps_those_that_the_form_lacks(visit, controller):
    with controller.client("root") as root:
        root.set_rules("ml101", {"max_leases": 5, "hours_rolling": {"hours": 20.0, "window": 24}})
        grace = visit("grace")
        answer = grace.post("courses/ml101", do="rules", max_leases="3", user_hours_per_week="4,5", idle="30")
        assert answer.status_code == 303
        told = root.account("ml101")
        assert told.taught_rules == {"max_leases": 3, "user_hours_per_week": 4.5, "idle": 1800}
        assert told.rules_in_force["hours_rolling"] == {"hours": 20.0, "window": 24}
        loosened = grace.post("courses/ml101", do="rules", max_leases="7")
        assert loosened.status_code == 403
        assert "you may only tighten what is in force" in plain(loosened)
        assert 'value="7"' in loosened.text
        assert 'id="rules-max_leases-fault"' in loosened.text
        assert grace.post("courses/ml101", do="rules", max_leases="5").status_code == 303
        root.set_course_rules("ml101", {})
        root.set_rules("ml101", {})


def test_an_instructor_sees_what_grading_has_left_and_a_student_does_not(visit, controller, gpu):
    with controller.client("root") as root, controller.client("grace") as pool:
        assert "Grading runs" not in plain(visit("grace").see("courses/ml101"))
        root.put_account(
            "ml101-grading", kind="course", parent=None, weight=1.0, rules={"hours_per_week": 10}
        )
        root.set_limit("ml101-grading", {"V100": 100})
        lease = reserve(pool, "ps1.ipynb", course="ml101-grading")
        page = visit("grace").see("courses/ml101")
        assert "Grading runs" in plain(page)
        assert "0.02 of 0.1" in plain(page)
        assert "Grading, this week 10 GPU-hours left of 10" in plain(page)
        assert f'href="{PREFIX}courses/ml101-grading"' in page.text
        own = visit("grace").see("courses/ml101-grading")
        assert own.status_code == 200
        assert "ps1.ipynb" in plain(own)
        assert "ml101-grading" in plain(visit("grace").see(""))
        assert "ml101-grading" not in plain(visit("ada").see(""))
        assert visit("ada").see("courses/ml101-grading").status_code == 403
        pool.release(lease.id, lease.holder)
        gpu.carry_out()
        root.remove_account("ml101-grading")


def test_an_instructor_pauses_the_course_and_lets_it_go_on(visit, controller):
    grace = visit("grace")
    assert grace.post("courses/ml101", do="pause", paused="Back at ten").status_code == 303
    with controller.client("ada") as ada, pytest.raises(CoursePaused, match="Back at ten"):
        reserve(ada, "paused.ipynb")
    assert "Back at ten" in plain(grace.see("courses/ml101"))
    assert grace.post("courses/ml101", do="resume").status_code == 303
    with controller.client("ada") as ada:
        lease = reserve(ada, "paused.ipynb")
        ada.release(lease.id, lease.holder)


def test_an_instructor_gives_one_student_rules_of_their_own_and_takes_them_back(visit, controller):
    grace = visit("grace")
    form = {"user": "ada", "override.max_leases": "0", "until": f"{in_days(30)}T18:00"}
    assert grace.post("courses/ml101", do="override", action="set", **form).status_code == 303
    with controller.client("ada") as ada, pytest.raises(Refused):
        reserve(ada, "own.ipynb")
    page = grace.see("courses/ml101?student=ada")
    assert f"until {in_days(30)} 18:00" in plain(page)
    assert f'value="{in_days(30)}T18:00"' in page.text
    assert grace.post("courses/ml101", do="override", action="remove", user="ada").status_code == 303
    with controller.client("ada") as ada:
        lease = reserve(ada, "own.ipynb")
        ada.release(lease.id, lease.holder)


def test_an_instructor_is_not_offered_to_take_away_what_an_admin_said_of_a_student(visit, controller):
    page = "courses/ml101?student=eve"
    with controller.client("root") as root:
        before = root.account("ml101")
        rules = {**before.rules, "overrides": {"eve": {"max_leases": 0}}}
        root.put_account("ml101", kind="course", parent=before.path[-2], rules=rules)
        try:
            assert "Remove own rules" not in visit("grace").see(page).text
            form = {"user": "eve", "override.max_leases": "3", "action": "set"}
            assert visit("grace").post(page, do="override", **form).status_code == 403
        finally:
            root.put_account("ml101", kind="course", parent=before.path[-2], rules=before.rules)


def test_an_override_without_a_student_or_a_rule_is_refused_at_its_field(visit):
    for form in ({"user": "", "override.max_leases": "1"}, {"user": "ada", "until": f"{in_days(1)}T10:00"}):
        page = visit("grace").post("courses/ml101", do="override", action="set", **form)
        assert page.status_code == 422
        assert 'id="override-user-fault"' in page.text


def test_an_instructor_sets_the_sizes_on_offer(visit, controller):
    grace = visit("grace")
    assert grace.post("courses/ml101", do="rules", sizes="0.02  V100,0.05 V100, ").status_code == 303
    with controller.client("ada") as ada, pytest.raises(Refused, match=r"0\.05 V100"):
        reserve(ada, "size.ipynb", "0.03 V100")
    bad = grace.post("courses/ml101", do="rules", sizes="much of a V100")
    assert bad.status_code == 400
    assert 'value="much of a V100"' in bad.text
    assert grace.post("courses/ml101", do="rules", sizes="").status_code == 303


def test_an_instructor_ends_idle_slices_of_the_own_course_only(visit, lease, controller):
    grace = visit("grace")
    answer = grace.post("courses/ml101", do="end_idle", minutes="5")
    assert answer.headers["location"].endswith("done=none_idle")
    assert grace.post("courses/cv202", do="end_idle", minutes="5").status_code == 403
    with controller.client("ada") as ada:
        assert ada.get(lease.id).in_force


def test_an_instructor_takes_a_slice_of_the_own_course_back(visit, lease, controller):
    assert visit("grace").post(f"leases/{lease.id}", do="revoke", reason="the lab is over").status_code == 303
    with controller.client("ada") as ada:
        assert "the lab is over" in ada.get(lease.id).reason


def test_the_course_and_the_pool_have_plots_with_the_limit_and_a_table_of_them(visit, lease):
    for who, page, limit in (("grace", "courses/ml101", "limit 0.1"), ("root", "pool", "limit 1")):
        answer = visit(who).see(page)
        assert answer.text.count('<figure class="gk-plot">') == 2
        assert limit in plain(answer)
        assert "Granted at most" in plain(answer)


def test_the_table_of_usage_comes_from_the_controller(visit):
    answer = visit("grace").see("courses/ml101/usage.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines()[0].startswith("lease,")


def test_an_instructor_books_changes_and_cancels_a_class_hour(visit, controller):
    grace = visit("grace")
    form = {"seats": "3", "size": "0.02 V100", "start": "10:00", "end": "11:30", "last_date": in_days(100)}
    booked = grace.post("courses/ml101/class-hours", do="book", weekdays=["monday", "thursday"], **form)
    assert booked.status_code == 303, plain(booked)
    with controller.client("grace") as pool:
        (hour,) = pool.class_hours("ml101")
        assert (hour.minutes, hour.weekdays, hour.seats) == (90, ("monday", "thursday"), 3)
        page = plain(grace.see("courses/ml101/class-hours"))
        assert "Mon, Thu 10:00, 1 h 30 min" in page
        editing = grace.see(f"courses/ml101/class-hours?change={hour.id}")
        assert 'value="11:30"' in editing.text
        changed = grace.post(
            "courses/ml101/class-hours",
            do="change",
            id=hour.id,
            weekdays=["friday"],
            **form | {"seats": "2"},
        )
        assert changed.status_code == 303, plain(changed)
        (hour,) = pool.class_hours("ml101")
        assert (hour.weekdays, hour.seats) == (("friday",), 2)
        assert grace.post("courses/ml101/class-hours", do="cancel", id=hour.id).status_code == 303
        assert pool.class_hours("ml101") == []


def test_a_class_hour_without_room_says_what_would_fit_beside_what_was_typed(visit):
    form = {"seats": "1999", "size": "0.02 V100", "start": "10:00", "end": "11:30", "last_date": in_days(100)}
    page = visit("grace").post("courses/ml101/class-hours", do="book", weekdays=["monday"], **form)
    assert page.status_code == 409
    assert "1999" in page.text
    assert 'value="monday" id="day-monday" checked' in page.text
    assert "would fit" in plain(page)


def test_an_admin_sees_the_pool_and_takes_a_slice_back(visit, lease, controller, gpu):
    root = visit("root")
    page = root.see("pool")
    assert page.status_code == 200
    assert "<svg" in page.text
    assert 'aria-label="gpu1, GPU 0: 0.02 of 1 in use; ml101 0.02"' in page.text
    answer = root.post(f"leases/{lease.id}", do="revoke", reason="the class needs it")
    assert answer.status_code == 303
    with controller.client("ada") as ada:
        assert "the class needs it" in ada.get(lease.id).reason
    gpu.carry_out()
    history = root.see("history")
    assert "the class needs it" in plain(history)
    (ended,) = [row for row in history.text.split("<tr>") if lease.id in row]
    assert ended.count("<time") == 2, "when it was asked for, and when it was over"
    assert lease.id not in root.see("history?living=1").text
    assert "revoked" in plain(root.see(f"audit?subject={lease.id}"))
    chosen = root.see("audit?kind=revoked").text
    assert re.search(r"<option[^>]* selected>revoked<", chosen)
    assert f'title="{lease.id}"' in chosen


def test_an_admin_drains_a_server_and_opens_it_again(visit, controller):
    root = visit("root")
    answer = root.post("servers/gpu1", do="standing", standing="draining", drain_by="2099-01-01T18:00")
    assert answer.status_code == 303
    with controller.client("root") as pool:
        (agent,) = pool.agents()
        assert (agent.standing, agent.drain_by) == ("draining", "2099-01-01T18:00:00.000+00:00")
        root.post("servers/gpu1", do="standing", standing="open")
        assert pool.agents()[0].standing == "open"


def test_a_server_is_lost_only_by_who_types_its_name(visit):
    page = visit("root").post("servers/gpu1", do="lost", name="gpu2")
    assert page.status_code == 422
    assert "Type the server's name" in plain(page)


@pytest.mark.parametrize(
    "page", ["courses/ml101", "courses/cv202", "pool", "history", "audit", "servers/gpu1"]
)
def test_a_student_is_refused_what_is_not_theirs_with_the_controllers_words(visit, page):
    answer = visit("ada").see(page)
    assert answer.status_code == 403
    assert re.search("ada (may not|is not a member)", plain(answer))


def test_a_course_that_is_gone_or_renamed_is_a_clear_text(visit):
    page = visit("root").see("courses/ml101-old")
    assert page.status_code == 404
    assert "There is no course ml101-old in the GPU pool." in plain(page)


def test_a_fragment_is_what_the_page_shows(visit, lease):
    grace = visit("grace")
    parts = grace.parts("courses/ml101", "students", "summary", "../base", "nothing")
    assert parts.keys() == {"students", "summary"}
    assert "first_steps.ipynb" in parts["students"]


def test_who_has_not_signed_in_is_sent_to_the_hub_but_not_from_a_form(visit):
    nobody = visit("nobody")
    nobody.http.cookies.clear()
    assert nobody.see("").status_code == 302
    assert "oauth2/authorize" in nobody.see("").headers["location"]
    answer = nobody.http.post(f"{PREFIX}courses/ml101", data={"do": "limit"})
    assert answer.status_code == 403
    assert "Nothing was changed" in plain(answer)


def test_the_hub_away_is_a_clear_text_that_tries_again(visit, site):
    site.forget()
    HubUser.away = True
    page = visit("ada").see("")
    HubUser.away = False
    assert page.status_code == 503
    assert "The hub does not answer" in plain(page)
    assert "data-retry=" in page.text


@pytest.mark.parametrize("query", ["", "?code=stolen", "?code=stolen&state=forged", "?error=denied"])
def test_a_sign_in_that_fails_is_a_clear_text(visit, query):
    nobody = visit("nobody")
    nobody.http.cookies.clear()
    page = nobody.see(f"oauth_callback{query}")
    assert page.status_code in (400, 403)
    assert "Signing in did not work" in plain(page)
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_students_own_rules_that_the_form_does_not_show_stay(visit, controller):
    kept = {"user_hours_rolling": {"hours": 2.0, "window": 24}, "max_size": {"": 400}}
    with controller.client("grace") as pool:
        pool.set_course_rules("ml101", {"overrides": {"ada": {**kept, "sizes": ["0.02 V100"]}}})
        grace = visit("grace")
        page = grace.see("courses/ml101?student=ada")
        assert "also has 2 GPU-hours in any 24 hours" in plain(page)
        assert 'value="0.02 V100"' in page.text
        form = {"user": "ada", "override.max_leases": "1", "override.sizes": "0.02 V100, 0.05 V100"}
        answer = grace.post("courses/ml101", do="override", action="set", **form)
        assert answer.status_code == 303
        own = pool.account("ml101").taught_rules["overrides"]["ada"]
        assert own == {**kept, "sizes": ["0.02 V100", "0.05 V100"], "max_leases": 1}
        grace.post("courses/ml101", do="override", action="set", user="ada", **{"override.max_leases": ""})
        assert pool.account("ml101").taught_rules["overrides"]["ada"] == {
            name: value for name, value in own.items() if name != "max_leases"
        }
        pool.set_course_rules("ml101", {})


def test_a_rule_of_another_gpu_class_than_the_pool_has_now_stays(visit, controller):
    with controller.client("grace") as pool:
        pool.set_course_rules("ml101", {"max_size": {"": 500, "A100": 200}})
        sizes = {"max_size.V100": "0.1"}
        assert visit("grace").post("courses/ml101", do="rules", **sizes).status_code == 303
        assert pool.account("ml101").taught_rules["max_size"] == {"": 500, "A100": 200, "V100": 100}
        pool.set_course_rules("ml101", {})


def test_a_field_says_where_its_rule_does_not_count_and_what_does(visit, controller):
    with controller.client("grace") as grace, controller.client("root") as root:
        grace.set_course_rules(
            "ml101",
            {"max_leases": 4, "max_size": {"V100": 300}, "overrides": {"ada": {"max_leases": 6}}},
        )
        assert "Has no effect" not in plain(visit("grace").see("courses/ml101?student=ada"))
        root.set_rules("ml101", {"max_leases": 2, "max_size": {"V100": 100}})
        page = visit("grace").see("courses/ml101?student=ada")
        assert "Has no effect now: an account above the course sets 2, which is tighter." in plain(page)
        assert "Has no effect now: an account above the course sets 0.1 GPUs, which" in plain(page)
        assert "These have no effect now" in plain(page)
        assert 'aria-describedby="rules-max_leases-hint"' in page.text
        assert "These have no effect now" not in plain(visit("grace").see("courses/ml101?student=eve"))
        root.set_rules("ml101", {})
        grace.set_course_rules("ml101", {})


def test_a_list_that_is_cut_says_so_and_shows_the_way_on(visit, controller, gpu, monkeypatch):
    monkeypatch.setattr(asking, "A_PAGE", 1)
    monkeypatch.setattr(asking, "MOST_LEASES", 2)
    with controller.client("ada") as ada:
        leases = [reserve(ada, f"cut {number}.ipynb", "0.001 V100") for number in range(2)]
        for who, address in (("grace", "courses/ml101"), ("root", "pool"), ("root", "servers/gpu1")):
            assert "There are more than" not in visit(who).see(address).text
        leases.append(reserve(ada, "cut 2.ipynb", "0.001 V100"))
        for who, address in (("grace", "courses/ml101"), ("root", "pool"), ("root", "servers/gpu1")):
            page = visit(who).see(address)
            assert "There are more than 2 leases. This page counts, draws and lists the newest 2" in plain(
                page
            )
            (way_on,) = set(re.findall(r'href="([^"]*history[^"]*living[^"]*)"', page.text))
            assert "cut 0.ipynb" not in page.text
            listed = visit(who).see(unescape(way_on).removeprefix(PREFIX))
            assert listed.text.count("0.001 V100") == 3
        for lease in leases:
            ada.release(lease.id, lease.holder)
        gpu.carry_out()


def test_a_long_table_is_passed_on_as_it_comes(visit, controller, lease, monkeypatch):
    monkeypatch.setattr(usage, "MOST_ROWS", 1)
    whole = visit("grace").see("courses/ml101/usage.csv")
    assert whole.headers["content-type"].startswith("text/csv")
    assert whole.headers.get("content-length") is None, "it is not known before it has gone out"
    with controller.client("grace") as grace:
        assert lines_of(whole.text) == lines_of(grace.usage_table(course="ml101"))
    assert len(lines_of(whole.text)) > 2


def lines_of(table):
    """Which slices it tells of; what they lasted goes on."""
    return [line.split(",")[:4] for line in table.splitlines()]


def test_a_table_that_breaks_off_does_not_look_whole(visit, controller, lease, monkeypatch):
    monkeypatch.setattr(usage, "MOST_ROWS", 1)
    pages, page_of = [], usage._page

    def breaks(*arguments):
        pages.append(arguments)
        if len(pages) > 1:
            raise OSError("the ledger's disk is gone")
        return page_of(*arguments)

    monkeypatch.setattr(usage, "_page", breaks)
    with pytest.raises(httpx.RemoteProtocolError):
        visit("grace").see("courses/ml101/usage.csv")


def test_a_table_that_is_refused_is_a_page_in_words(visit):
    page = visit("ada").see("courses/ml101/usage.csv?from=never")
    assert page.status_code == 400
    assert page.headers["content-type"].startswith("text/html")


def test_an_admin_sees_that_a_registration_was_refused(controller, gpu, visit):
    with pytest.raises(AgentElsewhere):
        Agent(controller.client("gpu-server"), boot="evil").register(address="tcp://127.0.0.1:6666")
    root = visit("root")
    assert "another was refused" in root.see("pool").text
    page = root.see("servers/gpu1").text
    assert "Someone tried to register as this server 1 times in the last hour" in page
    assert "tcp://127.0.0.1:6666" in page

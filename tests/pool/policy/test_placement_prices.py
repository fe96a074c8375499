"""What room is worth, and where that sends a request: examples that can be followed by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpu_kernels.pool.policy.model import Gpu
from gpu_kernels.pool.policy.placement import Catalogue, Index, Shape
from gpu_kernels.pool.policy.placement.prices import Kind, Wish, worth_of
from gpu_kernels.units import parse_size

pytestmark = pytest.mark.quick

ONE_KIND = [Kind("V100", 0.0, 1.0)]


def unlimited(gpu_class: str) -> int:
    return 10**9


def used(number: int, agent: str, thousandths: int, index: int = 0) -> Gpu:
    return Gpu(number, agent, index, "V100", 1000, used_mib=thousandths, used_thousandths=thousandths)


def wishes(**weights: float) -> list[Wish]:
    return [Wish({"V100": int(name[1:])}, 0.0, weight) for name, weight in weights.items()]


class TestWorth:
    def test_without_a_catalogue_room_is_worth_its_size(self) -> None:
        worth = worth_of(ONE_KIND, [])
        assert worth.of_gap("V100", 300) == (0.3,)
        assert worth.of_gaps("V100", [1000, 500]) == (1.5,)
        assert worth.of_gaps("V100", []) == (0.0,)

    def test_sizes_that_fill_gpus_without_rest_cost_their_share(self) -> None:
        worth = worth_of(ONE_KIND, wishes(_250=1, _500=1, _1000=1))
        for gap, expected in ((250, 0.25), (500, 0.5), (1000, 1.0)):
            assert worth.of_gap("V100", gap)[0] == pytest.approx(expected, abs=0.01)

    def test_a_gap_that_no_size_fits_is_worth_nothing(self) -> None:
        worth = worth_of(ONE_KIND, wishes(_300=1, _700=1))
        assert worth.of_gap("V100", 290) == (0.0,)
        assert worth.of_gap("V100", 690)[0] < worth.of_gap("V100", 700)[0]

    def test_a_size_that_spoils_a_gpu_costs_more_than_its_share(self) -> None:
        worth = worth_of(ONE_KIND, wishes(_600=1, _1000=1))
        assert worth.of_gap("V100", 600)[0] > 0.95 * worth.of_gap("V100", 1000)[0]

    def test_worth_never_falls_with_room_and_never_rises_with_the_host_price(self) -> None:
        kinds = [Kind("V100", 0.6, 0.7), Kind("T4", 2.0, 0.3)]
        both = {"V100": 300, "T4": 300}
        some = [Wish(both, 0.2, 3.0), Wish({"V100": 1000}, 0.9, 1.0), Wish({}, 0.4, 0.5)]
        worth = worth_of(kinds, some)
        for gpu_class in ("V100", "T4"):
            rows = worth.rows[gpu_class]
            for less, more in pairwise(rows):
                assert all(a <= b for a, b in zip(less, more, strict=True))
            for row in rows:
                assert list(row) == sorted(row, reverse=True)

    def test_a_server_is_worth_no_more_than_its_host_amount_can_serve(self) -> None:
        worth = worth_of([Kind("V100", 1.0, 1.0)], [Wish({"V100": 1000}, 1.0, 1.0)])
        sums = worth.of_gaps("V100", [1000, 1000])
        assert worth.of_server(sums, 2.0) > worth.of_server(sums, 1.0) > worth.of_server(sums, 0.0) == 0.0


class TestWhereARequestGoes:
    def test_a_pair_that_fills_a_gpu_is_kept_together(self) -> None:
        # best fit would take the gap of 650 for 500, and leave 150 that nobody wants
        index = Index(
            [used(1, "a", 350), used(2, "b", 500), used(3, "c", 0)],
            catalogue=Catalogue.learned({"0.65 V100": 1, "0.35 V100": 1, "0.5 V100": 1}),
        )
        found = index.place(parse_size("0.5 V100"), room=unlimited)
        assert found is not None
        assert found.agent == "b"

    def test_it_opens_an_empty_gpu_rather_than_spoil_the_gap_of_a_popular_size(self) -> None:
        gpus = [used(1, "a", 300), used(2, "b", 0)]
        size = parse_size("0.5 V100")
        popular = Catalogue.learned({"0.7 V100": 5, "0.3 V100": 5, "0.5 V100": 1})
        fgd, best_fit = (
            Index(gpus, catalogue=popular, policies={"": policy}).place(size, room=unlimited)
            for policy in ("fgd", "best_fit")
        )
        assert fgd is not None
        assert best_fit is not None
        assert (fgd.agent, best_fit.agent) == ("b", "a")

    def test_of_places_that_are_worth_the_same_it_takes_the_broken_one(self) -> None:
        index = Index(
            [used(1, "a", 0), used(2, "b", 500)], catalogue=Catalogue.on_offer(["0.25 V100", "1 V100"])
        )
        found = index.place(parse_size("0.25 V100"), room=unlimited)
        assert found is not None
        assert found.agent == "b"

    def test_whole_servers_stay_for_those_who_want_them(self) -> None:
        gpus = [used(server * 10 + i, f"s{server}", 0, i) for server in (1, 2) for i in range(4)]
        gpus[4] = used(20, "s2", 1000, 0)
        index = Index(gpus, catalogue=Catalogue.learned({"1 V100": 3, "4 V100": 1}))
        for _ in range(3):
            found = index.place(parse_size("1 V100"), room=unlimited)
            assert found is not None
            assert found.agent == "s2"
            index.take(found)
        assert index.place(parse_size("4 V100"), room=unlimited) is not None

    def test_ties_go_to_the_lowest_name(self) -> None:
        index = Index(
            [used(2, "b", 0), used(1, "c", 0), used(3, "a", 0)], catalogue=Catalogue.on_offer(["1 V100"])
        )
        found = index.place(parse_size("1 V100"), room=unlimited)
        assert found is not None
        assert found.agent == "a"

    def test_spread_takes_the_emptiest(self) -> None:
        index = Index([used(1, "a", 300), used(2, "b", 0), used(3, "c", 200)], policies={"V100": "spread"})
        found = index.place(parse_size("0.1 V100"), room=unlimited)
        assert found is not None
        assert found.agent == "b"

    def test_a_policy_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no placement policy 'worst_fit'"):
            Index(policies={"": "worst_fit"})


class TestHostAmounts:
    def cores(self, first: int, second: int) -> Index:
        shapes = (
            Shape(parse_size("1 V100"), 1.0, (2,)),
            Shape(parse_size("1 V100"), 1.0, (30,)),
        )
        index = Index([used(n * 10 + i, f"s{n}", 0, i) for n in (1, 2) for i in range(2)])
        index.catalogue = Catalogue(shapes)
        index.put_host("s1", (64,), (first,))
        index.put_host("s2", (8,), (second,))
        return index

    def test_nothing_goes_where_the_host_amount_does_not_suffice(self) -> None:
        found = self.cores(64, 8).place(parse_size("1 V100"), room=unlimited, host=(30,))
        assert found is not None
        assert found.agent == "s1"
        assert self.cores(29, 8).place(parse_size("1 V100"), room=unlimited, host=(30,)) is None

    def test_who_needs_little_leaves_the_rich_server_to_those_who_need_much(self) -> None:
        found = self.cores(64, 8).place(parse_size("1 V100"), room=unlimited, host=(2,))
        assert found is not None
        assert found.agent == "s2"

    def test_host_alone_goes_where_no_gpu_misses_it(self) -> None:
        index = self.cores(64, 8)
        assert index.place_host((6,), room=unlimited) == "s1"
        assert index.place_host((65,), room=unlimited) is None


class TestCatalogue:
    def test_learned_counts_of_one_size_in_two_spellings_add_up(self) -> None:
        learned = Catalogue.learned({"0.05 V100": 2, "1/20 V100": 3, "1 V100": 0})
        assert learned.shapes == (Shape(parse_size("0.05 V100"), 5),)

    def test_a_catalogue_changes_where_things_go_at_once(self) -> None:
        index = Index([used(1, "a", 300), used(2, "b", 0)], catalogue=Catalogue.on_offer(["0.5 V100"]))
        first = index.place(parse_size("0.5 V100"), room=unlimited)
        index.catalogue = Catalogue.learned({"0.7 V100": 5, "0.3 V100": 5, "0.5 V100": 1})
        second = index.place(parse_size("0.5 V100"), room=unlimited)
        assert first is not None
        assert second is not None
        assert (first.agent, second.agent) == ("a", "b")


def test_one_server_more_of_a_known_class_changes_no_price() -> None:
    index = Index([used(1, "a", 300), used(2, "b", 0)], catalogue=Catalogue.on_offer(["0.5 V100", "0.3 GPU"]))
    index.place(parse_size("0.5 V100"), room=unlimited)
    before = index._priced()
    index.put(used(3, "c", 0))
    index.drop(1)
    assert index._priced() is before

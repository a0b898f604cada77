from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirtybus.pool.ranking import Ranking


def ranking(**ranks: float) -> Ranking[str]:
    made: Ranking[str] = Ranking()
    for key, rank in ranks.items():
        made.put(key, rank)
    return made


def test_the_smallest_rank_comes_out_first() -> None:
    assert ranking(a=3, b=1, c=2).take_first() == "b"


def test_equal_ranks_come_out_as_they_went_in() -> None:
    assert ranking(z=1, a=1, m=1).take_until(1) == ["z", "a", "m"]


def test_a_key_put_twice_stands_only_at_its_new_rank() -> None:
    made = ranking(a=1, b=2)
    made.put("a", 3)
    assert made.first_rank() == 2
    assert made.take_until(9) == ["b", "a"]


def test_a_dropped_key_never_comes_out() -> None:
    made = ranking(a=1, b=2)
    made.drop("a")
    made.drop("ghost")
    assert made.first_rank() == 2
    assert "a" not in made
    assert list(made) == ["b"]


def test_taking_until_a_rank_includes_it_and_leaves_the_rest() -> None:
    made = ranking(a=1, b=2, c=2.5)
    assert made.take_until(2) == ["a", "b"]
    assert len(made) == 1


def test_an_empty_ranking_has_no_first() -> None:
    made = ranking()
    assert made.take_first() is None
    assert made.first_rank() is None
    assert made.take_until(9) == []


def test_a_million_short_lives_leave_nothing_behind() -> None:
    made: Ranking[int] = Ranking()
    for key in range(100_000):
        made.put(key, 300.0 + key)
        made.drop(key)
    assert len(made._heap) < 100


def test_a_broken_index_is_noticed() -> None:
    made = ranking(a=1)
    made._heap.clear()
    with pytest.raises(AssertionError, match="a ranking lost"):
        made.check()


@given(st.lists(st.tuples(st.sampled_from("pdt"), st.integers(0, 9), st.integers(0, 5)), max_size=200))
def test_a_ranking_agrees_with_a_sorted_list(moves: list[tuple[str, int, int]]) -> None:
    made: Ranking[int] = Ranking()
    model: dict[int, tuple[int, int]] = {}
    for n, (move, key, rank) in enumerate(moves):
        if move == "p":
            made.put(key, rank)
            model[key] = (rank, n)
        elif move == "d":
            made.drop(key)
            model.pop(key, None)
        else:
            first = min(model, key=lambda k: model[k], default=None)
            assert made.take_first() == first
            model.pop(-1 if first is None else first, None)
        made.check()
        assert len(made) == len(model)
        assert made.first_rank() == min((r for r, _ in model.values()), default=None)

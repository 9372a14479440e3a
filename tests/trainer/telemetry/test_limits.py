"""The limits of the horizon: the shares that they cut, and the warning."""

from turnwise.records import Limit, Outcome, Status
from turnwise.trainer.telemetry.limits import LimitCounts, notable, warning


def ended(reached: Limit | None, turns: int, tokens: int, cut: int) -> Outcome:
    status = Status.TRUNCATED if reached else Status.COMPLETED
    return Outcome("t", 0, 0, status, 0.0, None, turns, tokens, reached=reached, cut_turns=cut)


def test_shares_are_of_turns_and_of_episodes() -> None:
    outcomes = [ended(Limit.TURNS, 6, 24, 6), ended(None, 2, 8, 0), ended(Limit.CONTEXT, 2, 8, 1), ended(None, 0, 0, 0)]
    metrics = LimitCounts.of(outcomes).metrics()
    assert metrics == {
        "response_tokens": 4.0,
        "cut_turn_fraction": 0.7,
        "max_turns_fraction": 0.25,
        "max_tokens_per_episode_fraction": 0.0,
        "max_context_fraction": 0.25,
    }
    assert notable(metrics) == {Limit.TOKENS_PER_TURN: 0.7, Limit.TURNS: 0.25, Limit.CONTEXT: 0.25}
    assert set(LimitCounts.of([]).metrics().values()) == {0.0}


def test_the_warning_names_the_key_and_the_share() -> None:
    assert warning(Limit.TOKENS_PER_TURN, 0.69, "update 3") == (
        "update 3: `horizon.max_tokens_per_turn` cut 69% of the answers before their end: the environment reads the "
        "part; raise it, or shorten the answers"
    )
    assert "`horizon.max_context` ended 25% of the episodes" in warning(Limit.CONTEXT, 0.25, "update 3")
    assert not warning(Limit.TURNS, 0.9, "update 3")

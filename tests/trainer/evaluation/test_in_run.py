"""Why an evaluation in a run failed."""

from turnwise.records import Outcome, Status
from turnwise.trainer.evaluation.in_run import last_failure


def outcome(status: Status, error: str) -> Outcome:
    return Outcome("demo:1-0", 0, 0, status, 0.0, None, 3, 9, error)


def test_the_reason_is_that_of_an_episode_without_a_score() -> None:
    played = [
        outcome(Status.ENV_ERROR, "the database is away"),
        outcome(Status.TRUNCATED, "6 turns played"),
        outcome(Status.COMPLETED, ""),
    ]
    assert last_failure(played) == "the database is away"
    assert last_failure(played[1:]) == "their workers were lost"

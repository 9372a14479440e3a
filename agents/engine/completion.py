"""A completion: one sampled turn, as the engine reports it."""

from typing import NamedTuple


class Completion(NamedTuple):
    """One sampled turn. ``tokens``, ``logprobs`` and ``versions`` have the same length: one entry per sampled token."""

    tokens: list[int]
    logprobs: list[float]
    """Behavior log-probabilities, under the distribution that was sampled from."""
    versions: list[int]
    """The policy version that sampled each token."""
    finish_reason: str
    """``stop``: the policy ended its turn. ``length``: ``max_tokens`` was reached. Without tokens: the error."""

    def defect(self) -> str:
        """Return why the completion cannot be trained on: it has no tokens, or values are missing; else empty."""
        ids, logprobs, versions = len(self.tokens), len(self.logprobs), len(self.versions)
        if not ids:
            return f"no tokens: {self.finish_reason}"
        if ids == logprobs == versions:
            return ""
        return f"{ids} token ids, {logprobs} log-probabilities and {versions} versions; each token needs all three"


def failed_completion(error: str) -> Completion:
    """Return a completion without tokens, which carries an error."""
    return Completion([], [], [], error)

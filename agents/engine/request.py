"""A request to an engine, and its completion: one sampled turn, as the engine reports it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from ..tokens.renderer import ImageSpan

CUT = "length"
"""The ``finish_reason`` of a turn that ``max_tokens`` ended."""
UNSENT = "unsent image"
"""The ``finish_reason`` of a turn that has an image that the engine neither got with the request nor keeps."""
MAX_LOGPROBS = 20
"""vLLM's own limit."""
MIN_TEMPERATURE = 0.01
"""The lowest temperature that samples: vLLM raises a lower one to it."""


def check_temperature(temperature: float) -> float:
    """Return a temperature that an engine samples with: 0, the most probable token, or ``MIN_TEMPERATURE`` and above.

    Raises:
        ValueError: it is another number.
    """
    if temperature != 0 and not MIN_TEMPERATURE <= temperature < inf:
        raise ValueError(f"must be 0, which is greedy, or at least {MIN_TEMPERATURE}, not {temperature:g}")
    return temperature


@dataclass(frozen=True, slots=True)
class Sampling:
    """How an engine samples a turn. Top-p, top-k and penalties are missing: they would change the distribution."""

    stop: tuple[int, ...]
    """Token ids that end the turn."""
    temperature: float = 1.0
    """0 is greedy: the most probable token. Its log-probability is then that at temperature 1, as vLLM reports it."""
    logprobs: int = 0
    """Number of the most probable tokens that are reported for each sampled one."""

    def __post_init__(self) -> None:
        check_temperature(self.temperature)
        if not 0 <= self.logprobs <= MAX_LOGPROBS:
            raise ValueError(f"logprobs must be 0 to {MAX_LOGPROBS}, not {self.logprobs}")


@dataclass(frozen=True, slots=True)
class Request:
    """One turn to sample."""

    tokens: Sequence[int]
    """The token ids of the prompt, with all tokens of its images."""
    max_tokens: int
    """Limit on the sampled tokens."""
    sampling: Sampling
    images: Sequence[ImageSpan] = ()
    """The places of the images in the prompt."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Images that the engine may not have yet, as PNG, by hash."""

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ValueError(f"a request samples at least 1 token, not {self.max_tokens}")


class Completion(NamedTuple):
    """One sampled turn. ``tokens``, ``logprobs`` and ``versions`` have the same length: one entry per sampled token."""

    tokens: list[int]
    logprobs: list[float]
    """Behavior log-probabilities, under the distribution that was sampled from; of greedy turns, at temperature 1."""
    versions: list[int]
    """The policy version that sampled each token."""
    finish_reason: str
    """``stop``: the policy ended its turn. ``length``: ``max_tokens`` was reached. Without tokens: the error."""
    top: Sequence[Sequence[tuple[int, float]]] = ()
    """For each sampled token, the ``Sampling.logprobs`` most probable ones, with their log-probabilities."""

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

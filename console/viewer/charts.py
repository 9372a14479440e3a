"""The charts of a run: the metrics of each, in the order of the page. ``static/chart.js`` draws them.

Under the viewer's content security policy, the charting files that come in wheels log violations for each chart, and
weigh 350 KB (bokeh) and 1.5 MB (plotly) compressed; ``chart.js`` weighs 5 KB.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...trainer.algorithms.algorithm_set import SLOTS
from ...trainer.telemetry.events import REWARD_PART

Unit = Literal["rate", "number", "seconds"]
LINES_MAX = 8


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart."""

    metric: str
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart over updates."""

    section: str
    """A key of ``SECTIONS``; empty for the charts that come first."""
    title: str
    unit: Unit
    lines: Sequence[Line]
    note: str = ""
    """The meaning of the values in one line."""
    is_stacked: bool = False
    prefix: str = ""
    """Every metric ``<prefix>.../<name>`` is a line as well; at most ``LINES_MAX``."""
    has_held_out: bool = False
    """Whether the success of evaluations is drawn too, with its interval."""


@dataclass(frozen=True, slots=True)
class Section:
    """Charts that fold away together."""

    name: str
    title: str
    is_open: bool
    charts: Sequence[Chart]


SECTIONS = {
    "returns": "Returns and endings",
    "learning": "Learning",
    "components": "Metrics of components",
    "speed": "Time and throughput",
}
"""By name, the title of each group of charts that folds away."""
OPEN = "returns,learning,components"
"""The sections that are open unless the query's ``open`` names others."""
FAILURES = "failures/"
"""Prefix of the number of failed episodes of one status; the status follows."""


def _chart(
    section: str,
    title: str,
    unit: Unit,
    *lines: tuple[str, str],
    note: str = "",
    is_stacked: bool = False,
    prefix: str = "",
) -> Chart:
    return Chart(section, title, unit, [Line(*line) for line in lines], note, is_stacked, prefix)


CHARTS = (
    Chart(
        "",
        "Success",
        "rate",
        [Line("success", "training batch")],
        "Share of episodes, and of held-out tasks",
        has_held_out=True,
    ),
    _chart(
        "",
        "Staleness",
        "number",
        ("staleness_mean", "mean"),
        ("staleness_max", "max"),
        note="Updates between the version that sampled a token and the updated one",
    ),
    _chart(
        "",
        "Turns per episode",
        "number",
        ("turns_per_episode", "mean"),
        ("horizon_turns", "limit"),
        note="Mean of the batch, and the limit of the horizon",
    ),
    _chart("returns", "Return", "number", ("reward", "mean"), note="Mean return per episode of the batch"),
    _chart("returns", "Parts of the return", "number", note="Mean of each part per episode", prefix=REWARD_PART),
    _chart(
        "returns",
        "Limits reached",
        "rate",
        ("cut_turn_fraction", "turns cut"),
        ("max_turns_fraction", "episodes: turns"),
        ("max_tokens_per_episode_fraction", "episodes: tokens"),
        ("max_context_fraction", "episodes: context"),
        note="Share of turns or episodes that a limit of the horizon ended",
    ),
    _chart(
        "returns",
        "Invalid actions",
        "rate",
        ("invalid_action_fraction", "turns"),
        note="Share of turns with an action that is not valid; they are trained on",
    ),
    _chart(
        "returns",
        "Failed episodes",
        "number",
        note="Since the drawn update before, by status, retried ones included",
        is_stacked=True,
        prefix=FAILURES,
    ),
    _chart("learning", "Entropy", "number", ("entropy", "policy"), note="Of the policy, in nats per token"),
    _chart(
        "learning",
        "KL divergence",
        "number",
        ("behavior_kl", "to the behavior policy"),
        ("reference_kl", "to the reference"),
        note="Mean per trained token, in nats",
    ),
    _chart(
        "learning",
        "Engine–learner mismatch",
        "number",
        ("engine_mismatch_mean", "mean"),
        ("engine_mismatch_max", "max"),
        note="Difference between the log-probabilities of engine and learner",
    ),
    _chart(
        "learning",
        "Clipped and capped tokens",
        "rate",
        ("clip_fraction", "clipped"),
        ("is_cap_fraction", "capped weights"),
        note="Share of the trained tokens",
    ),
    _chart(
        "learning",
        "Not trained on",
        "rate",
        ("swept_fraction", "masked: too stale"),
        ("missing_fraction", "missing members"),
        note="Shares of tokens and of members",
    ),
    _chart("learning", "Gradient norm", "number", ("grad_norm", "before clipping")),
    _chart("learning", "Loss", "number", ("loss", "loss")),
    _chart("learning", "Learning rate", "number", ("learning_rate", "learning rate")),
    *(_chart("components", one.slot, "number", prefix=one.slot, note="As the component reports") for one in SLOTS),
    _chart(
        "speed",
        "Time per update",
        "seconds",
        ("batch_wait_s", "waiting for rollouts"),
        ("assembly_s", "assembling the batch"),
        ("update_s", "learner"),
        note="Seconds of the driver per update",
        is_stacked=True,
    ),
    _chart(
        "speed",
        "Utilization",
        "rate",
        ("engine_busy_fraction", "engines"),
        ("slot_busy_fraction", "episode slots"),
        ("worker_busy_fraction", "rollout workers"),
        ("learner_busy_fraction", "learner"),
        note="Share of the time in which each part was busy",
    ),
    _chart(
        "speed",
        "Busy time",
        "seconds",
        ("engine_busy_s", "engines"),
        ("worker_busy_s", "rollout workers"),
        ("learner_busy_s", "learner"),
        note="Seconds per update in which each part was busy, which may be at the same time",
        is_stacked=True,
    ),
    _chart(
        "speed", "Tokens per second", "number", ("tokens_per_s", "trained"), note="Trained tokens since the last update"
    ),
    _chart("speed", "Tokens per batch", "number", ("tokens", "trained"), note="Trained tokens per update"),
)


def charts_of(metrics: Iterable[str]) -> list[Chart]:
    """Return the charts of which at least one of ``metrics`` is a line, with those lines only."""
    known = sorted(metrics)
    found = []
    for chart in CHARTS:
        named = [one for one in known if chart.prefix and "/" in one and one.startswith(chart.prefix)][:LINES_MAX]
        lines = [line for line in chart.lines if line.metric in known]
        lines += [Line(one, one.removeprefix(chart.prefix) if chart.prefix.endswith("/") else one) for one in named]
        if lines:
            found.append(replace(chart, lines=lines))
    return found


def leading() -> list[Chart]:
    """Return the charts that come first, the large one before the others."""
    return [one for one in CHARTS if not one.section]


def sections(opened: str | None) -> list[Section]:
    """Return the charts that fold away, by section; ``opened`` names the open ones, with commas between them."""
    names = (OPEN if opened is None else opened).split(",")
    return [
        Section(name, title, name in names, [one for one in CHARTS if one.section == name])
        for name, title in SECTIONS.items()
    ]

"""The published methods that are proven by a run each: their configuration, and the traces that they must leave."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select
from turnwise.records import Source
from turnwise.store.content.turn_rows import messages_of
from turnwise.store.schema import step, train_batch


@dataclass(frozen=True)
class Method:
    """A method, and the evidence in its run that it took part."""

    keys: tuple[str, ...]
    """Assignments of the configuration that select the method."""
    metrics: tuple[str, ...] = ()
    """Metrics in the record of every update."""
    state: str = ""
    """The key of the component whose state must not be empty."""
    effect: str | Callable[[Connection], int] = ""
    """A number, as SQL on the store or as a function of it, that must not be 0."""
    before: tuple[tuple[str, ...], ...] = ()
    """Commands on the store of the run, before it."""
    last: Mapping[str, float] = field(default_factory=dict)
    """Values of metrics in the last record."""


LOSS = ("loss", "entropy", "grad_norm")
POOL = ("environments.0.options.pool_size=8",)
"""A few tasks, so that each is played several times."""
DROPPED = "SELECT count(*) FROM trajectory WHERE ended_by = 'controller'"
CONTINUED = "SELECT count(*) FROM trajectory WHERE extras LIKE '%continues%'"
SOLVED = "SELECT count(*) FROM trajectory WHERE success"
BRANCHED = "SELECT count(*) FROM trajectory WHERE branched_from IS NOT NULL"
REUSED = "SELECT count(*) FROM batch_item WHERE NOT fresh"
FILTERED = "SELECT count(*) FROM rollout_group WHERE state = 'filtered' AND reason = 'zero_variance: all returns equal'"
WIDENED = "SELECT count(DISTINCT max_turns) - 1 FROM rollout_group WHERE purpose = 'train'"
ENVIRONMENT = ("--env", "turnwise/TextSite-v0", "--option", "family=open", "--option", "pool_size=8")
DEMONSTRATIONS = ("eval", "--policy", "oracle", "--split", "train", "--tasks", "8", *ENVIRONMENT)


def patched(conn: Connection) -> int:
    """Return the number of messages that are patches."""
    rows = conn.execute(select(step)).mappings()
    return sum(message.source is Source.PATCH for row in rows for message in messages_of(row, {}))


def clipped(conn: Connection) -> int:
    """Return the number of updates in which a ratio was clipped."""
    return sum(one["clip_fraction"] > 0 for one in conn.execute(select(train_batch.c.metrics)).scalars())


METHODS: dict[str, Method] = {
    "gspo": Method(('preset="gspo"',), (*LOSS, "clip_fraction"), effect=clipped),
    "grpo": Method(('preset="grpo"',), (*LOSS, "reference_kl")),
    "dr_grpo": Method(('preset="dr_grpo"',), (*LOSS, "clip_fraction")),
    "reference_kl": Method(("loss.reference_kl_coef=0.01",), (*LOSS, "reference_kl")),
    "vcpo": Method(('loss.name="vcpo"',), (*LOSS, "lr_scale", "loss/sequence_weight", "loss/sequence_weight_square")),
    "ewma": Method(('proximal.name="ewma"', "learner.num_minibatches=2"), (*LOSS, "clip_fraction"), "proximal"),
    "log_linear": Method(('proximal.name="log_linear"',), (*LOSS, "clip_fraction")),
    "behavior": Method(('proximal.name="behavior"',), (*LOSS, "clip_fraction")),
    "turn_return": Method(('advantage.name="turn_return"',), LOSS),
    "gigpo": Method(('advantage.name="gigpo"',), (*LOSS, "advantage/shared_state_fraction")),
    "reinforce_pp": Method(('advantage.name="reinforce_pp"',), LOSS),
    "mopps": Method((*POOL, 'task_sampler.name="mopps"'), (*LOSS, "task_sampler/tasks"), "task_sampler"),
    "dart": Method((*POOL, 'group_size.name="dart"'), LOSS, "group_size", SOLVED),
    "successful_length": Method(
        (*POOL, 'horizon.name="successful_length"'), (*LOSS, "horizon_turns"), "horizon", SOLVED
    ),
    "additive": Method(
        ('horizon.name="additive"', "horizon.start=2", "horizon.interval=5"), (*LOSS, "horizon_turns"), effect=WIDENED
    ),
    "multiplicative": Method(
        ('horizon.name="multiplicative"', "horizon.start=2"), (*LOSS, "horizon_turns"), effect=WIDENED
    ),
    "staged": Method(
        ("horizon={name='staged',stages=[2,4],boundaries=[10],max_tokens_per_turn=4,max_context=256}",),
        (*LOSS, "horizon_turns"),
        effect=WIDENED,
    ),
    "zero_variance": Method(('group_filters=[{name="zero_variance"}]',), LOSS, effect=FILTERED),
    "april": Method(("rollout_control={name='april',extra=2}",), LOSS, effect=DROPPED),
    "april_recycle": Method(("rollout_control={name='april',extra=2,recycle=true}",), LOSS, effect=CONTINUED),
    "arrol": Method(("rollout_control={name='arrol',keep=2,after_turns=1}",), LOSS, effect=DROPPED),
    "turn_tree": Method(('rollout_control.name="turn_tree"',), LOSS, effect=BRANCHED),
    "tree": Method(
        ('rollout_control.name="turn_tree"', 'advantage.name="tree"'),
        (*LOSS, "advantage/shared_turn_fraction"),
        effect=BRANCHED,
    ),
    "prime": Method(
        ('advantage.name="prime"',),
        (*LOSS, "advantage/process_reward_loss", "advantage/process_reward_accuracy"),
        "advantage",
    ),
    "dars": Method(
        (*POOL, 'group_size={name="dars",max_size=8}'), LOSS, effect="SELECT count(*) FROM rollout_group WHERE size > 4"
    ),
    "behavior_cloning": Method(
        (*POOL, 'loss.name="behavior_cloning"', 'replay_buffer.name="demonstrations"'),
        (*LOSS, "loss/nll", "replay_buffer/demonstrations"),
        effect=REUSED,
        before=(DEMONSTRATIONS,),
    ),
    "hpt": Method(
        (*POOL, 'loss.name="hpt"', 'replay_buffer.name="demonstrations"'),
        ("loss", "grad_norm", "loss/sft_fraction", "replay_buffer/demonstrations"),
        effect=REUSED,
        before=(DEMONSTRATIONS,),
    ),
    "ui_s1": Method(
        (
            'environments=[{ id = "turnwise/SemiOnline-v0", options = { path = "experts.jsonl" } }]',
            'advantage.name="ui_s1"',
            "evaluation.tasks=0",
        ),
        LOSS,
        effect=patched,
        before=(DEMONSTRATIONS, ("-m", "turnwise.envs.worlds.semi_online.experts", "experts.jsonl")),
    ),
    "success_backfill": Method(
        (*POOL, 'replay_buffer.name="success_backfill"'), (*LOSS, "replay_buffer/filled_groups"), effect=REUSED
    ),
    "dots": Method((*POOL, 'replay_buffer.name="dots"'), (*LOSS, "replay_buffer/reused_groups"), effect=REUSED),
}
"""By name. ``proofs`` adds the components of ``dropped_files``, which are written for the run."""

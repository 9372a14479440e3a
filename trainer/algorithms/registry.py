"""Extension points by name: the config says ``[advantage] name = "turn_return"`` and gets that class with the rest as
its fields.

An extension is a pydantic model: its fields are its options (a misspelt one is an error), its state lives in private
attributes and leaves only through ``state_dict``. Nothing here knows a paper's name; ``SLOTS`` is the whole list.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ...errors import TurnwiseError, nearest


class ConfigError(TurnwiseError):
    """A configuration that cannot be used; the message names the key and, for a misspelt one, the nearest."""


class Extension(BaseModel):
    """Base of everything that can stand in a slot. Stateless unless it overrides the two state methods."""

    model_config = ConfigDict(extra="forbid")

    operational: ClassVar[frozenset[str]] = frozenset()
    """Options that change how the extension runs and not what it computes: a run may change them and resume."""

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""


SLOTS: dict[str, dict[str, str]] = {
    "task_sampler": {"frontier": "curriculum.learnability:Frontier", "mixture": "curriculum.mixture:Mixture"},
    "prompt_scaffold": {"none": "curriculum.prompt:NoScaffold"},
    "rollout_budget": {"constant": "curriculum.group_size:Constant"},
    "horizon": {
        "constant": "curriculum.horizon:Constant",
        "staged": "curriculum.horizon:Staged",
        "additive": "curriculum.horizon:Additive",
        "multiplicative": "curriculum.horizon:Multiplicative",
    },
    "rollout_controller": {"play_on": "rollout_control.never_stop:PlayOn"},
    "reward_shaper": {"judge": "rewards.llm_judge:Judge", "length_penalty": "rewards.turn_penalty:LengthPenalty"},
    "group_filter": {"informative": "filters.zero_variance:Informative"},
    "advantage": {
        "group_mean": "advantages.grpo:GroupMean",
        "group_normalized": "advantages.grpo:GroupNormalised",
        "turn_return": "advantages.grpo:TurnReturn",
    },
    "sample_filter": {"negative_weight": "filters.negative_advantage_weight:NegativeWeight"},
    "loss": {"decoupled": "losses.decoupled_ppo:Decoupled"},
    "proximal": {"recompute": "proximal.recompute:Recompute", "behavior": "proximal.recompute:Behavior"},
    "replay": {"none": "replay.none:NoReplay"},
    "admission": {"capacity": ".rollout.admission:Capacity"},
}


def build(slot: str, choice: Mapping[str, Any]) -> Any:
    """The extension that ``choice`` (``{"name": …, **options}``) names for ``slot``.

    A name with a colon, ``"my_pkg.credit:Mine"``, is imported: the way to bring one's own.

    Raises:
        ConfigError: the name is unknown, cannot be imported, or an option does not fit.
    """
    options = dict(choice)
    name = str(options.pop("name"))
    where = SLOTS[slot].get(name)
    if where is None and ":" not in name:
        raise ConfigError(f"{slot}.name: there is no {slot} called {name!r}{nearest(name, list(SLOTS[slot]))}")
    module, _, attribute = (where or name).partition(":")
    try:
        cls = getattr(import_module(f".{module}", __package__) if where else import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{slot}.name: {name!r} cannot be imported: {error}") from error
    try:
        return cls(**options)
    except ValidationError as error:
        raise ConfigError(explain(error, slot, list(cls.model_fields))) from error


MANY = 3
"""Sections that a misplaced key may belong to; of more, none is named."""


def explain(
    error: ValidationError,
    prefix: str = "",
    known: list[str] | None = None,
    model: Any = None,
    everywhere: Sequence[str] = (),
) -> str:
    """A pydantic error as one line a person can act on; ``everywhere`` are the dotted keys of all sections, where an
    unknown one may belong.
    """
    lines = []
    for item in error.errors():
        path = ".".join(str(part) for part in (prefix, *item["loc"]) if part != "")
        if item["type"] == "extra_forbidden":
            last = str(item["loc"][-1])
            names = known if known is not None else fields_at(model, item["loc"][:-1])
            homes = [repr(key) for key in everywhere if key.rpartition(".")[2] == last]
            hint = f" (did you mean {' or '.join(homes)}?)" if 0 < len(homes) <= MANY else nearest(last, names)
            lines.append(f"{path}: unknown key{hint}")
        elif item["type"] == "list_type" and isinstance(item["input"], dict):
            lines.append(f"{path}: a table where a list is expected; a list of tables has double brackets: [[{path}]]")
        else:
            lines.append(f"{path}: {item['msg']}, got {item['input']!r}"[:300])
    return "; ".join(lines)


def fields_at(model: Any, path: tuple[int | str, ...]) -> list[str]:
    """The field names of the model that stands at ``path`` inside ``model``."""
    for part in path:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        if field is None:
            return []
        inner = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((one for one in inner if isinstance(one, type) and issubclass(one, BaseModel)), None)
        if model is None:
            return []
    return list(model.model_fields)

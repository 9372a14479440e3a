"""The base of every component: a pydantic model whose fields are its options in the configuration.

A slot is a package with a ``base.py``. That file declares an abstract subclass of ``Component`` with ``slot`` and
``default``; every other module of the package holds one method, and its file name is its name in the configuration.

* Options are fields: the configuration checks them and reports a misspelled one.
* ``observe`` receives every training group of the run once, after the group closed and was scored.
* ``metrics`` returns numbers for the record of the next update.
* State is kept in private attributes and leaves through ``state_dict``, as JSON values, and ``tensors``. With the
  random streams (``random_streams``), it makes the components of a resumed run continue as those of the uninterrupted
  run would have.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from ...errors import TurnwiseError
from ...records import ScoredGroup
from .registry import UnknownComponent, component_class, component_name

if TYPE_CHECKING:
    from torch import Tensor

LOG = logging.getLogger(__name__)

NAME_ERROR = "component_name"
"""The type of a pydantic error about a component's name; its message is complete."""


class Component(BaseModel):
    """A method in a slot. Stateless unless it sets ``remembered``, or overrides ``state_dict`` or ``tensors``."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    slot: ClassVar[str] = ""
    """The slot's key in the configuration; each slot's base sets it."""
    default: ClassVar[str] = ""
    """The method that the configuration takes where it names none; empty in slots that hold a list."""
    operational: ClassVar[frozenset[str]] = frozenset()
    """Options that change how the component runs and not what it computes: a resumed run may change them."""
    needs_texts: ClassVar[bool] = False
    """Whether the component reads the texts of observations. Without it, they may be empty in the groups it gets."""
    remembered: ClassVar[tuple[str, ...]] = ()
    """The private attributes that are the state: JSON values. A component with other values overrides ``state_dict``
    and ``load_state_dict``."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Check the names in ``remembered``.

        Raises:
            TypeError: one of them is not a private attribute.
        """
        super().__pydantic_init_subclass__(**kwargs)
        if unknown := [name for name in cls.remembered if name not in cls.__private_attributes__]:
            names = ", ".join(f"`{name}`" for name in unknown)
            raise TypeError(
                f"`{cls.__module__}.{cls.__qualname__}`: `remembered` names {names}, "
                "which is no private attribute of the class: declare it with `PrivateAttr`, or correct the name"
            )

    @classmethod
    def build(cls, choice: Mapping[str, Any]) -> Self:
        """Build the component that ``choice`` (``{"name": …, **options}``) selects for this slot.

        Raises:
            ValidationError: the name is unknown, cannot be imported, or an option does not fit.
        """
        return cls.model_validate(dict(choice))

    @classmethod
    def build_default(cls) -> Self:
        """Build the slot's default method with its default options."""
        return cls.build({})

    def mathematics(self) -> dict[str, Any]:
        """Return the name and the options that change what is computed and differ from their defaults."""
        return self.model_dump(mode="json", exclude=set(self.operational), exclude_defaults=True)

    @contextmanager
    def calling(self, method: str) -> Iterator[None]:
        """Inside the ``with`` block, log an exception of ``method`` and raise it with the names of slot and component.

        Raises:
            TurnwiseError: the method raised an exception.
        """
        try:
            yield
        except TurnwiseError:
            raise
        except Exception as error:
            LOG.exception("`%s` of the component `%s` raised", method, component_name(type(self)))
            raise TurnwiseError(
                f"`{method}` of the {self.slot} component `{component_name(type(self))}` raised "
                f"{type(error).__name__}: {error}; `turnwise runs logs` has the traceback"
            ) from error

    def observe(self, scored: ScoredGroup) -> None:
        """Learn from a group that was scored. Called once per closed training group, filtered and failed ones included,
        in the order of the scorings; a failed group has fewer than two members.

        Called in the event loop of the run, which it must not block. After a resume, the surviving groups that were
        scored after the checkpoint follow again: state plus ``observe`` is the state of the uninterrupted run.
        """

    def metrics(self) -> dict[str, float]:
        """Return numbers for the metrics of the next update, where they appear as ``<slot>/<name>``."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as JSON values: copies of what ``remembered`` names; ``tensors`` returns the rest."""
        return {name.removeprefix("_"): deepcopy(getattr(self, name)) for name in self.remembered}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that ``state_dict`` returned; an attribute that it lacks gets its default.

        Raises:
            TurnwiseError: the state has a key that ``remembered`` does not name, so it is of another component.
        """
        known = {name.removeprefix("_") for name in self.remembered}
        if unknown := sorted(state.keys() - known):
            raise TurnwiseError(
                f"the {self.slot} component `{component_name(type(self))}` cannot restore its state: it has no "
                f"{', '.join(f'`{key}`' for key in unknown)}, because another version of it wrote the state. Continue "
                "with that version, or start a run of another name"
            )
        for name in self.remembered:
            key, default = name.removeprefix("_"), self.__private_attributes__[name]
            new = deepcopy(state[key]) if key in state else default.get_default(call_default_factory=True)
            setattr(self, name, new)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the state by name, without gradient. A checkpoint holds them in a file of tensors."""
        return {}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the tensors that ``tensors`` returned; they are on the CPU."""

    @model_validator(mode="wrap")
    @classmethod
    def _choose(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate a table against the class it names, where this class is the base of a slot."""
        if "slot" not in cls.__dict__ or isinstance(value, cls):
            return handler(value)
        if not isinstance(value, Mapping):
            raise PydanticCustomError(NAME_ERROR, 'expected a table such as { name = "…" }')
        options = dict(value)
        given = options.pop("name", None)
        name = cls.default if given is None else given
        try:
            found: type[Self] = component_class(cls, str(name))
        except UnknownComponent as error:
            reason = PydanticCustomError(NAME_ERROR, "{reason}", {"reason": str(error)})
            line = InitErrorDetails(type=reason, loc=("name",), input=name)
            raise ValidationError.from_exception_data(cls.__name__, [line]) from error
        return found.model_validate(options)

    @model_serializer(mode="wrap")
    def _with_name(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"name": component_name(type(self)), **handler(self)}

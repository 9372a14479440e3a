"""The refusals of a model: one that cannot be read, trained, served or planned, or an adapter on other weights."""

from ..learner.model.adapter_base import verify_base
from .refusal import Command, Cost, Stage, Subject, refuses


@refuses("model.path", Cost.MODEL, Command.TRAIN)
def untrainable_model(subject: Subject) -> None:
    """Refuse a configured model that the run cannot train or serve, and a reference policy with another tokenizer."""
    if (model := subject.config.model.folder()) is not None:
        from .model_files import refuse_untrainable_model

        refuse_untrainable_model(subject.config, model)


@refuses("model.path", Cost.MODEL, Command.TRAIN, Command.RESUME, Command.FORK, stage=Stage.WEIGHTS)
def untrainable_weights(subject: Subject) -> None:
    """Refuse a checkpoint, or a new model, as a configured model is refused before the start."""
    is_checked = subject.command is Command.TRAIN and subject.config.model.path is not None
    if subject.model is not None and not is_checked:
        from .model_files import refuse_untrainable_model

        refuse_untrainable_model(subject.config, subject.model)


@refuses("model.path", Cost.MODEL, Command.PLAN)
def unplannable_model(subject: Subject) -> None:
    """Refuse a model that a run would refuse, by the files that are here: ``config.json`` alone of a hub id."""
    if subject.config.model.path is not None:
        from .model_files import refuse_unplannable

        refuse_unplannable(subject.config, subject.config.model.path)


@refuses("--policy", Cost.MODEL, Command.EVAL, Command.BRANCH)
def unplayable_model(subject: Subject) -> None:
    """Refuse a model that cannot play."""
    if subject.model is not None:
        from .model_files import refuse_unusable

        refuse_unusable(subject.model, "--policy", subject.config.max_context)


@refuses("--model", Cost.MODEL, Command.DOCTOR)
def unusable_model(subject: Subject) -> None:
    """Refuse a model that cannot be trained, with whatever context."""
    if subject.model is not None:
        from .model_files import refuse_unusable

        refuse_unusable(subject.model, "--model", 0, trains=True)


@refuses("--policy", Cost.WEIGHTS, Command.EVAL, Command.BRANCH)
@refuses("model.path", Cost.WEIGHTS, Command.RESUME, Command.FORK, stage=Stage.WEIGHTS)
def adapter_on_other_weights(subject: Subject) -> None:
    """Refuse an adapter whose model changed since the adapter was written."""
    if subject.model is not None:
        verify_base(subject.model)

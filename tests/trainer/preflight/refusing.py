"""Call one check of the preflight."""

from typing import Any

from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.preflight.refusal import Command, Find, Subject, refuse


def call(find: Find, config: RunConfig, command: Command = Command.TRAIN, **values: Any) -> None:
    """Raise ``Refused`` if a check refuses the configuration."""
    refuse(list(find(Subject(config, command, **values)) or ()))

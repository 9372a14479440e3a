"""The public names of ``turnwise.trainer``: each is the object that its module defines, and no other name exists."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
import turnwise.trainer
from turnwise.trainer.config.loading import load_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.evaluation.tasks import evaluate
from turnwise.trainer.run.run import train
from turnwise.trainer.run.summary import RunResult
from turnwise.trainer.telemetry.events import EvalResult


def test_public_names_are_the_objects_of_their_modules() -> None:
    expected = {one.__name__: one for one in (EvalResult, RunConfig, RunResult, evaluate, load_config, train)}
    assert {name: getattr(turnwise.trainer, name) for name in turnwise.trainer.__all__} == expected


def test_the_page_on_training_uses_public_names_and_fields_of_the_result() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (block,) = [one for one in blocks if "from turnwise.trainer import" in one]
    tree = list(ast.walk(ast.parse(block)))
    imported = {alias.name for node in tree if isinstance(node, ast.ImportFrom) for alias in node.names}
    attributes = {node.attr for node in tree if isinstance(node, ast.Attribute)}
    assert imported
    assert imported <= set(turnwise.trainer.__all__)
    assert attributes
    assert attributes <= {one.name for one in fields(RunResult)}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"`turnwise\.trainer` has no attribute `trian`"):
        _ = turnwise.trainer.trian

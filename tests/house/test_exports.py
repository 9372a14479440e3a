"""The page on training uses names of the API that exist; ``tests/test_api.py`` runs them."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import turnwise
from turnwise.store import queries
from turnwise.trainer.run.summary import RunResult
from turnwise.trainer.telemetry.events import UpdateDone


def test_the_page_on_training_uses_public_names_and_fields_of_the_result() -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (block,) = [one for one in blocks if "import turnwise" in one]
    tree = list(ast.walk(ast.parse(block)))
    used: dict[str, set[str]] = {}
    for node in tree:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    assert used["turnwise"] <= set(turnwise.__all__)
    assert used["result"] <= {one.name for one in fields(RunResult)}
    assert used["update"] <= {one.name for one in fields(UpdateDone)}
    assert used["queries"] <= set(queries.__all__)

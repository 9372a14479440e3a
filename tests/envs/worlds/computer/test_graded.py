"""The verdict of a check: solved or not, a share, or the mean of named parts."""

from typing import Any

import numpy as np
import pytest
from turnwise.envs.worlds.computer.env import Verdict, graded


@pytest.mark.parametrize(
    ("checked", "parts", "success"),
    [
        (True, {"success": 1.0}, True),
        (False, {}, False),
        (np.bool_(True), {"success": 1.0}, True),
        (0.25, {"success": 0.25}, False),
        (1, {"success": 1.0}, True),
        (np.float32(0.5), {"success": 0.5}, False),
        ({"pizza": True, "street": False}, {"pizza": 0.5}, False),
        ({"pizza": True, "street": 0.5}, {"pizza": 0.5, "street": 0.25}, False),
        ({"pizza": True, "street": True}, {"pizza": 0.5, "street": 0.5}, True),
    ],
)
def test_a_check_may_give_partial_credit(checked: Any, parts: dict[str, float], success: bool) -> None:
    assert graded("`Pizza.check`", checked) == Verdict(parts, over=True, success=success)


@pytest.mark.parametrize("checked", [None, "yes", 1.5, -1, float("nan"), {}, {"pizza": None}, [True], ()])
def test_any_other_value_is_named(checked: Any) -> None:
    with pytest.raises(TypeError, match=r"`Pizza\.check` must return True, False, a number from 0 to 1, or a dict"):
        graded("`Pizza.check`", checked)

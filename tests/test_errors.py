"""The words of errors that every part uses."""

from typing import Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator
from turnwise.errors import reason


class Settings(BaseModel, extra="forbid"):
    count: int = Field(1, ge=1, le=5)
    rate: float = Field(1.0, gt=0, allow_inf_nan=False)
    name: str = Field("a", pattern="^[a-z]*$", max_length=9)
    kind: Literal["one", "two"] = "one"
    flag: bool = True
    table: dict[str, int] = Field(default_factory=dict)
    values: list[int] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _short(cls, name: str) -> str:
        if len(name) > 3:
            raise ValueError("at most 3 letters")
        return name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"count": "many"}, "must be an integer"),
        ({"count": 1.5}, "must be an integer"),
        ({"count": 0}, "must be at least 1"),
        ({"count": 6}, "must be at most 5"),
        ({"rate": "x"}, "must be a number"),
        ({"rate": 0}, "must be greater than 0.0"),
        ({"rate": float("nan")}, "must be a finite number"),
        ({"name": 3}, "must be a text"),
        ({"name": "long"}, "at most 3 letters"),
        ({"name": "A"}, "must match the pattern ^[a-z]*$"),
        ({"name": "a" * 10}, "must have at most 9 characters"),
        ({"kind": "three"}, "must be one of 'one' or 'two'"),
        ({"flag": "perhaps"}, "must be true or false"),
        ({"table": 3}, "must be a table"),
        ({"values": 3}, "must be a list"),
        ({"other": 3}, "unknown key"),
    ],
)
def test_a_reason_is_plain_words(given: dict[str, object], expected: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate(given)
    assert [reason(item) for item in refused.value.errors()] == [expected]


def test_a_missing_key_is_named_as_missing() -> None:
    class Needs(BaseModel):
        name: str

    with pytest.raises(ValidationError) as refused:
        Needs.model_validate({})
    assert reason(refused.value.errors()[0]) == "is missing"

"""The options of environments on the command line."""

import gymnasium
import pytest
from turnwise.console.commands.envs import read_env_options


class Typed(gymnasium.Env[str, str]):
    """An environment with options of several types."""

    def __init__(
        self,
        rows: int = 1,
        label: str = "",
        opt: str = None,  # type: ignore[assignment]  # noqa: RUF013 - as users write it
        untyped=1,
    ) -> None:
        super().__init__()


def test_an_option_stays_text_where_the_constructor_declares_text(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = gymnasium.envs.registration.EnvSpec("theirs/Typed-v0", entry_point=Typed)  # type: ignore[arg-type]
    monkeypatch.setitem(gymnasium.registry, spec.id, spec)
    read = {"label": "2024.10", "rows": 3, "opt": None, "untyped": 1}
    assert read_env_options(spec.id, ["label=2024.10", "rows=3", "opt=null", "untyped=1"]) == read
    assert read_env_options("theirs/Unknown-v0", ["label=2024.10"]) == {"label": 2024.1}

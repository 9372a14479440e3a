"""Environments are found by id, import and entry point, created without wrappers, and named in errors."""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec
from turnwise import __version__
from turnwise.envs import EnvironmentFailed, TurnEnv, UnknownEnvironment, all_ids, make, make_task, registry
from turnwise.envs.base import Adapted
from turnwise.envs.registry import nearest
from turnwise.envs.sandboxes import any_sandboxed, refuse_leases, sandbox_memory_mib
from turnwise.envs.tasks import env_package, task_id
from turnwise.envs.worlds import register
from turnwise.envs.worlds.tiny.code import TinyCodeEnv
from turnwise.envs.worlds.tiny.text import TextSiteEnv
from turnwise.sandbox import SandboxError, set_provider
from turnwise.tests.envs.faulty import FAULTY, FaultyEnv

TEXT_SITE = "turnwise/TextSite-v0"


class Plain(gymnasium.Env[str, str]):
    """An environment that uses Gymnasium only."""

    def __init__(self, word: str = "hello") -> None:
        self.action_space = gymnasium.spaces.Text(10)
        self.observation_space = gymnasium.spaces.Text(10)
        self.word = word

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return self.word, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return action, 1, True, False, {}


@pytest.fixture
def plain() -> Iterator[str]:
    entry: Any = Plain
    gymnasium.register("theirs/Plain-v3", entry_point=entry, max_episode_steps=5, nondeterministic=True)
    yield "theirs/Plain-v3"
    gymnasium.registry.pop("theirs/Plain-v3")


def test_environments_of_gymnasium_itself_are_not_listed(plain: str) -> None:
    assert {"turnwise/TextSite-v0", plain} <= set(all_ids())
    assert not any(each.startswith(("CartPole", "Ant", "phys2d")) for each in all_ids())


@pytest.mark.parametrize("plugin", [False, True], ids=["by the name of its package", "by its entry point"])
def test_the_package_of_an_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugin: bool) -> None:
    package = "Some-Envs" if plugin else "stranger-envs"
    module = "stranger_by_plugin" if plugin else "stranger_envs"
    source = f"import gymnasium\ngymnasium.register('{module}/E-v0', entry_point='{module}:E')\n"
    (tmp_path / f"{module}.py").write_text(source)
    info = tmp_path / f"{package.replace('-', '_')}-2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.3\n")
    if plugin:
        (info / "entry_points.txt").write_text(f"[turnwise.envs]\nany = {module}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert env_package(f"{module}:{module}/E-v0") == f"{package} 2.3"
    assert env_package("turnwise/TextSite-v0") == f"turnwise {__version__}"


def test_an_environment_outside_of_packages_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import gymnasium\ngymnasium.register('loose/E-v0', entry_point='loose_world:E')\n"
    (tmp_path / "loose_world.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert env_package("loose_world:loose/E-v0") == ""


def test_environments_have_no_wrappers() -> None:
    assert type(make("turnwise/TextSite-v0", family="find")) is TextSiteEnv
    assert type(make(FAULTY)) is FaultyEnv


def test_any_gymnasium_environment_of_text_is_adapted(plain: str) -> None:
    env = make(plain, word="hi")
    assert isinstance(env, Adapted)
    assert type(env.inner) is Plain
    assert not env.deterministic
    assert env.reset(seed=0) == ("hi", {})
    assert env.step("x") == ("x", 1.0, True, False, {})
    for method in (env.oracle, env.valid_actions, env.vocabulary):
        with pytest.raises(NotImplementedError):
            method()
    assert env.instructions() == ""
    env.close()


def test_a_wrapped_environment_keeps_its_methods() -> None:
    env = Adapted(gymnasium.wrappers.TimeLimit(TextSiteEnv("open"), 1))
    env.reset(seed=0)
    assert env.deterministic
    assert env.oracle().startswith("click ")
    assert env.valid_actions()
    assert env.vocabulary() == TextSiteEnv().vocabulary()
    assert env.normalize("a") == "a"
    assert env.instructions() == TextSiteEnv().instructions()
    assert env.step(env.oracle())[3]
    assert env.restorable, "a snapshot has the steps that the wrapper counts"


def test_an_adapted_environment_without_wrappers_keeps_its_snapshots() -> None:
    env = Adapted(TextSiteEnv("open"))
    env.reset(seed=0)
    assert env.restorable
    snapshot = env.snapshot()
    action = env.oracle()
    first = env.step(action)
    env.restore(snapshot)
    assert env.step(action) == first


@pytest.mark.parametrize("env_id", ["turnwise/Site-v0", "TextSite-v0", "turnwise/TextSite-v1", "gym/TextSite-v0"])
def test_an_unknown_id_names_the_nearest(env_id: str) -> None:
    with pytest.raises(UnknownEnvironment, match=r" \(did you mean 'turnwise/TextSite-v0'\?\); .*turnwise envs list"):
        make(env_id)


def test_the_nearest_id_may_have_another_namespace() -> None:
    entry: Any = Plain
    gymnasium.register("theirs/GuessNumbr-v0", entry_point=entry)
    try:
        assert nearest("turnwise/GuessNumbr-v0") == "theirs/GuessNumbr-v0"
        assert nearest("theirs/GuessNumber-v0") == "turnwise/GuessNumber-v0"
    finally:
        gymnasium.registry.pop("theirs/GuessNumbr-v0")


def test_an_id_without_its_module_is_answered_with_its_form() -> None:
    with pytest.raises(UnknownEnvironment, match=r"not installed as a plugin, write `module:mine/Guess-v0`"):
        make("mine/Guess-v0")


def test_an_unknown_id_of_a_module_is_looked_for_in_the_module() -> None:
    module = "turnwise.tests.envs.authoring.shares"
    with pytest.raises(UnknownEnvironment, match=rf"'; `gymnasium.register` in `{module}` names its ids$"):
        make(f"{module}:Xyz-v0")


def test_an_unknown_module_is_named() -> None:
    with pytest.raises(UnknownEnvironment, match=r"cannot import 'no_such_package\.envs'.*`PYTHONPATH=\. turnwise …`$"):
        make("no_such_package.envs:Id-v0")


def test_a_file_in_the_place_of_a_module_is_answered_with_the_module() -> None:
    with pytest.raises(UnknownEnvironment, match=r"without `\.py`: `PYTHONPATH=\. turnwise … no_pets:Pets-v0`"):
        make("no_pets.py:Pets-v0")
    with pytest.raises(UnknownEnvironment, match=r"`PYTHONPATH=mine turnwise … no_pets:Pets-v0`"):
        make("./mine/no_pets.py:Pets-v0")


def test_an_id_of_a_module_is_proposed_with_it() -> None:
    module = FAULTY.partition(":")[0]
    with pytest.raises(UnknownEnvironment, match=f"did you mean '{FAULTY}'"):
        make(f"{module}:faults/Fault-v0")
    with pytest.raises(UnknownEnvironment, match=r"did you mean 'turnwise/TextSite-v0'"):
        make("turnwise.envs:turnwise/Site-v0")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import gymnasium\n\nclass Pets\n", r"SyntaxError: expected ':' \({file}, line 3\)"),
        ("\nfrom turnwise.envs import TurnEnvs\n", r"ImportError: cannot import name 'TurnEnvs' .*\({file}, line 2\)"),
        ("import no_such_package\n", r"ModuleNotFoundError: No module named 'no_such_package' \({file}, line 1\)"),
        ("import math\nmath.sqrt(-1)\n", r"ValueError: .*\({file}, line 2\)"),
    ],
)
def test_the_error_of_a_module_that_does_not_import_names_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    file = tmp_path / "wrong_pets.py"
    file.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UnknownEnvironment, match=message.format(file=re.escape(str(file)))) as raised:
        make("wrong_pets:Pets-v0")
    assert "\n" not in str(raised.value)


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(EnvironmentFailed, match=r"TextSite-v0 has no option 'famly' \(did you mean 'family'\?\)$"):
        make("turnwise/TextSite-v0", famly="find")
    with pytest.raises(EnvironmentFailed, match=r"has no option 'color' \(known: charges_steps, fault, where\)"):
        make(FAULTY, color="red")
    with pytest.raises(EnvironmentFailed, match="choose from mix, find, login, open"):
        make("turnwise/TextSite-v0", family="fly")


class Typed(Plain):
    """An environment with options of several types, which it does not check."""

    def __init__(
        self,
        rows: int = 1,
        rate: float = 0.0,
        names: tuple[str, ...] = (),
        mode: Literal["text", "both"] = "text",
        limit: int | None = None,
        folder: str | Path = "",
        other: object = None,
        label: str = "",
        opt: int = None,  # type: ignore[assignment]  # noqa: RUF013 - as users write it
        untyped=1,
    ) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rows", "many", "its type is `int`"),
        ("rows", True, "its type is `int`"),
        ("rows", 2.5, "its type is `int`"),
        ("rate", "1", "its type is `float`"),
        ("names", "ann", "its type is `tuple[str, ...]`"),
        ("mode", "picture", "choose from text, both"),
        ("limit", "none", "its type is `int | None`"),
        ("rows", 2, ""),
        ("rate", 1, ""),
        ("names", ["ann"], ""),
        ("mode", "both", ""),
        ("limit", None, ""),
        ("folder", "a", ""),
        ("label", 2024, 'its type is `str`; quote it: `label = "2024"`'),
        ("label", True, 'its type is `str`; quote it: `label = "true"`'),
        ("label", ["a"], "its type is `str`"),
        ("opt", None, ""),
        ("opt", "none", "its type is `int`"),
        ("other", {"a": 1}, ""),
        ("untyped", "many", ""),
    ],
)
def test_an_option_of_another_type_is_refused(name: str, value: object, expected: str) -> None:
    entry: Any = Typed
    gymnasium.register("theirs/Typed-v0", entry_point=entry)
    try:
        with pytest.raises(EnvironmentFailed) if expected else nullcontext() as raised:
            make("theirs/Typed-v0", **{name: value})
        if raised:
            assert str(raised.value) == f"theirs/Typed-v0 takes no {value!r} for the option {name!r}: {expected}"
    finally:
        gymnasium.registry.pop("theirs/Typed-v0")


def test_options_are_not_checked_if_the_constructor_takes_any() -> None:
    class Anything(Plain):
        def __init__(self, **words: str) -> None:
            super().__init__(**words)

    gymnasium.register("theirs/Anything-v0", entry_point=Anything)
    with pytest.raises(EnvironmentFailed, match=r"could not be made with options \{'wrod': 'hi'\}: TypeError"):
        make("theirs/Anything-v0", wrod="hi")
    gymnasium.registry.pop("theirs/Anything-v0")


def test_a_task_has_the_same_hash_in_every_process() -> None:
    task = make_task("turnwise/TextSite-v0", 3, "test", {"family": "find"})
    assert (task.env_version, task.split, dict(task.options)) == ("0", "test", {"family": "find"})
    assert task.id == task_id("turnwise/TextSite-v0", "0", 3, "test", {"family": "find"})
    made = "make_task('turnwise/TextSite-v0', 3, 'test', {'family': 'find'})"
    script = f"from turnwise.envs import make_task; print({made}.id)"
    other = subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True)
    assert other.stdout.strip() == task.id
    site = "turnwise/TextSite-v0"
    others = [make_task(site, 4, "test"), make_task(site, 3), make_task(FAULTY, 3, "test")]
    assert len({task.id, *(each.id for each in others)}) == 4


def test_importing_environments_imports_nothing_heavy() -> None:
    script = (
        "import sys, turnwise.envs, turnwise.envs.runner.env_thread, turnwise.envs.authoring.check;"
        "turnwise.envs.all_ids();"
        "print({'torch', 'vllm', 'ray', 'transformers', 'playwright', 'sqlalchemy'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True)
    assert shown.stdout.strip() == "set()"


def test_the_base_is_a_gymnasium_environment() -> None:
    assert issubclass(TurnEnv, gymnasium.Env)


def test_environments_that_need_sandboxes_are_detected() -> None:
    assert any_sandboxed(["turnwise/TextSite-v0", "turnwise/TinyCode-v0"])
    assert any_sandboxed(["turnwise/Code-v0"])
    assert not any_sandboxed(["turnwise/TextSite-v0"])


def annotated(**options: Any) -> TinyCodeEnv:
    return TinyCodeEnv(**options)


def declared(**options: Any) -> Any:
    return TinyCodeEnv(**options)


declared.sandboxed = True  # type: ignore[attr-defined]


def undeclared(**options: Any) -> Any:
    return TinyCodeEnv(**options)


def test_a_factory_declares_its_sandboxes_by_its_annotation_or_an_attribute() -> None:
    for factory in (annotated, declared, undeclared):
        gymnasium.register(f"Made-{factory.__name__}-v0", factory)
    try:
        assert any_sandboxed(["Made-annotated-v0"])
        assert sandbox_memory_mib("Made-annotated-v0") == TinyCodeEnv.sandbox_memory_mib
        assert any_sandboxed(["Made-declared-v0"])
        assert not any_sandboxed(["Made-undeclared-v0"])
        refuse_leases()
        env = make("Made-undeclared-v0")
        with pytest.raises(SandboxError, match="set `sandboxed = True` on the class, or on the factory function"):
            env.reset(seed=0)
        env.close()
    finally:
        set_provider(None)
        for factory in (annotated, declared, undeclared):
            gymnasium.registry.pop(f"Made-{factory.__name__}-v0")


def test_a_plain_gymnasium_environment_uses_its_methods_and_reports_missing_ones() -> None:
    class Listing(Plain):
        def valid_actions(self) -> list[tuple[str, float]]:
            return [("go", 1.0)]

    plain = Adapted(Listing())
    assert plain.valid_actions() == [("go", 1.0)]
    assert plain.instructions() == ""
    assert plain.normalize("x") == "x"
    with pytest.raises(NotImplementedError, match=r"Listing has no oracle\(\)"):
        plain.oracle()


class Plugin:
    """An entry point whose code runs ``registers``."""

    value = "a_plugin"

    def __init__(self, registers: Callable[[], object]) -> None:
        self.load = lambda: registers


@pytest.fixture
def unregistered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not used the registry yet."""
    monkeypatch.setattr(registry, "_broken", None)
    monkeypatch.setattr(registry, "REGISTER_TIMEOUT_S", 5.0)
    registered: dict[str, EnvSpec] = {}
    monkeypatch.setattr(gymnasium.envs.registration, "registry", registered)
    monkeypatch.setattr(gymnasium, "registry", registered)


@pytest.mark.usefixtures("unregistered")
def test_one_thread_registers_and_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker makes its first environments in a thread each. Gymnasium's ``register`` fails in several at once."""
    loaded: list[str] = []

    def registers() -> None:
        loaded.append(threading.current_thread().name)
        for n in range(300):
            gymnasium.register(f"many/Text{n}-v0", "turnwise.envs.worlds.tiny.text:TextSiteEnv")
        time.sleep(0.2)

    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin(registers)])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            made = list(threads.map(lambda n: make(f"many/Text{n}-v0"), range(292, 300)))
    finally:
        sys.setswitchinterval(interval)
    assert len(made) == 8
    assert len(loaded) == 1


@pytest.mark.usefixtures("unregistered")
def test_a_plugin_may_list_environments_while_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [Plugin(register), Plugin(lambda: found.extend(all_ids()))]
    )
    assert registry.load_plugins() == {}
    assert TEXT_SITE in found


@pytest.mark.usefixtures("unregistered")
def test_a_plugin_that_waits_for_a_thread_that_makes_environments_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def registers() -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(all_ids).result()

    monkeypatch.setattr(registry, "REGISTER_TIMEOUT_S", 0.2)
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin(registers)])
    why = registry.load_plugins()["a_plugin"]
    assert "cannot load the plugins: another thread has taken more than 0.2 s to load the plugin a_plugin" in why


@pytest.mark.usefixtures("unregistered")
def test_a_plugin_that_exits_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin(sys.exit), Plugin(register)])
    assert TEXT_SITE in all_ids()
    assert registry.load_plugins() == {"a_plugin": "SystemExit: "}


@pytest.mark.usefixtures("unregistered")
def test_an_interrupted_load_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin(interrupted)])
    with pytest.raises(KeyboardInterrupt):
        registry.load_plugins()
    loaded: list[int] = []
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin(lambda: loaded.append(1))])
    assert registry.load_plugins() == {}
    assert loaded == [1]


SLOW_MODULE = """
import time, gymnasium
began = time.monotonic()
time.sleep(0.5)
gymnasium.register(__name__ + "/Slow-v0", entry_point="turnwise.envs.worlds.tiny.text:TextSiteEnv")
"""


@pytest.fixture
def slow_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    names = ["slow_world_a", "slow_world_b"]
    for name in names:
        (tmp_path / f"{name}.py").write_text(SLOW_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield names
    for name in names:
        sys.modules.pop(name, None)
        gymnasium.registry.pop(f"{name}/Slow-v0", None)


def test_one_module_is_imported_at_a_time_and_other_environments_do_not_wait(slow_modules: list[str]) -> None:
    make(TEXT_SITE)
    with ThreadPoolExecutor(2) as threads:
        importing = [threads.submit(make, f"{name}:{name}/Slow-v0") for name in slow_modules]
        time.sleep(0.1)
        make(TEXT_SITE)
        assert not any(one.done() for one in importing)
        assert [one.result(timeout=10).spec for one in importing]
    assert abs(sys.modules[slow_modules[0]].began - sys.modules[slow_modules[1]].began) >= 0.5


def test_a_module_that_another_thread_imports_for_too_long_is_named(
    slow_modules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = slow_modules
    monkeypatch.setattr(registry, "REGISTER_TIMEOUT_S", 0.1)
    with ThreadPoolExecutor(1) as thread:
        importing = thread.submit(make, f"{first}:{first}/Slow-v0")
        time.sleep(0.1)
        with pytest.raises(EnvironmentFailed, match=f"cannot import {second}: .* 0.1 s to import {first}"):
            make(f"{second}:{second}/Slow-v0")
        importing.result(timeout=10)

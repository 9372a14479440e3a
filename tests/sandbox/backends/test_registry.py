"""Backends are registered by entry points, and a backend of another package passes the self-check."""

import asyncio
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from turnwise.sandbox import SandboxError, SandboxSpec
from turnwise.sandbox.backends.docker import DockerOptions
from turnwise.sandbox.backends.protocol import UnknownBackend
from turnwise.sandbox.backends.registry import (
    GROUP,
    SHIPPED,
    all_prerequisites,
    backend_class,
    make_backend,
    registered,
)
from turnwise.sandbox.cluster.node import SandboxSettings
from turnwise.sandbox.errors import NotTrusted
from turnwise.sandbox.selfcheck.attack import AttackResult, Verdict
from turnwise.sandbox.selfcheck.harness import CaseResult
from turnwise.sandbox.selfcheck.run import run_attacks, run_conformance

PACKAGE = Path(__file__).with_name("unshare_backend")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def unshare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the package of a third-party backend."""
    monkeypatch.syspath_prepend(PACKAGE)
    registered.cache_clear()
    yield
    registered.cache_clear()


def test_the_shipped_backends_are_entry_points_too() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == SHIPPED


@pytest.mark.usefixtures("unshare")
def test_a_package_registers_a_backend_that_no_shipped_name_yields_to() -> None:
    assert list(registered()) == ["docker", "local", "unshare"]
    assert backend_class("unshare").Options().model_dump() == {"first_uid": 1_950_000_000}
    found = {part.backend: part.detail for part in all_prerequisites() if part.name == "capabilities"}
    assert found == {
        "docker": "contains network, totals, system calls; all tasks; programs of an image; unix transport",
        "local": "contains network, system calls; trusted tasks; programs of this machine; unix transport",
        "unshare": "contains no area; trusted tasks; programs of this machine; tcp transport",
    }


def test_the_page_names_the_package_that_is_tested() -> None:
    page = (ROOT / "docs/sandboxes.md").read_text()
    assert f"`{(PACKAGE / 'turnwise_unshare.py').relative_to(ROOT)}`" in page
    entry_points = (PACKAGE / "turnwise_unshare-1.0.dist-info/entry_points.txt").read_text()
    assert entry_points.splitlines()[1].partition(" = ")[2] in page


def test_unknown_names_and_options_are_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UnknownBackend, match=r"called `podman` \(known: docker, local\)"):
        make_backend("podman")
    with pytest.raises(UnknownBackend, match=r"option `runtme` .*`docker`.*did you mean 'runtime'"):
        make_backend("docker", options={"runtme": "runsc"})
    with pytest.raises(ValidationError, match="did you mean 'docker'"):
        SandboxSettings(backend="doker")
    with pytest.raises(ValidationError, match="option `runtime` of the sandbox backend `local`"):
        SandboxSettings(backend="local", options={"runtime": "runsc"})
    with pytest.raises(
        ValidationError, match=r"option `runtme` of the sandbox backend `docker`.*did you mean 'runtime'"
    ):
        SandboxSettings(options={"runtme": "runsc"})
    assert SandboxSettings(options={"runtime": "runsc"}).backend == "auto"
    assert DockerOptions(**SandboxSettings(backend="docker", options={"runtime": "runsc"}).options).runtime == "runsc"


def test_without_an_engine_an_option_of_docker_does_not_fall_back_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    with pytest.raises(UnknownBackend, match="option `runtime` of the sandbox backend `local`"):
        make_backend("auto", allow_untrusted=True, options={"runtime": "runsc"})


def test_a_broken_package_is_named_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.backends.registry.registered", lambda: {"broken": "no.such:Backend"})
    with pytest.raises(SandboxError, match=r"`broken` is registered as `no\.such:Backend`"):
        backend_class("broken")
    assert [(part.backend, part.found) for part in all_prerequisites()] == [("broken", False)]


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.usefixtures("unshare")
def test_a_backend_of_another_package_passes_the_self_check_by_its_capabilities() -> None:
    async def main() -> tuple[list[CaseResult], list[AttackResult]]:
        backend = make_backend("unshare", "tests")
        with pytest.raises(NotTrusted):
            await backend.start(SandboxSpec())
        try:
            attacks = await run_attacks(backend, only=["kill -9 -1", "this machine", "disk fill", "kernel settings"])
            return await run_conformance(backend, lanes=4), attacks
        finally:
            await backend.close()

    cases, attacks = asyncio.run(main())
    assert [case for case in cases if not case.ok] == []
    assert {attack.name: attack.verdict for attack in attacks} == {
        "kill -9 -1": Verdict.HELD,
        "this machine": Verdict.UNCLAIMED,
        "disk fill": Verdict.HELD,
        "kernel settings": Verdict.HELD,
    }

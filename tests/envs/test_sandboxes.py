"""Environments declare the memory and the image of their sandboxes; a run refuses a backend that lacks the image."""

import re

import pytest
from turnwise.envs.sandboxes import missing_images, sandbox_memory_mib, sandbox_settings

OTHERS = ["turnwise/Code-v0", "turnwise/TextSite-v0"]


@pytest.mark.parametrize("env_id", ["turnwise/Desktop-v0", "turnwise/TinyDesktop-v0", "turnwise/TinyWeb-v0"])
def test_a_backend_without_images_is_refused_for_environments_that_need_one(env_id: str) -> None:
    settings = sandbox_settings({"backend": "local"})
    message = rf"`{re.escape(env_id)}` runs .*`local` has no images: remove `sandboxes.backend`, or set it to"
    (reason,) = missing_images([*OTHERS, env_id], settings, here=False)
    assert re.search(message, reason)
    assert not [*missing_images(OTHERS, settings, here=True)]


def test_a_machine_without_docker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    for settings in (sandbox_settings(), sandbox_settings({"backend": "docker"})):
        (reason,) = missing_images(["turnwise/TinyDesktop-v0"], settings, here=True)
        assert "the image `desktop`, and Docker lacks the engine: install" in reason
        assert not [*missing_images(["turnwise/TinyDesktop-v0"], settings, here=False)]
        assert not [*missing_images(OTHERS, settings, here=True)]


@pytest.mark.docker
def test_an_engine_without_the_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwise.sandbox.backends.docker.image_reference", lambda name: f"turnwise/{name}:no")
    (reason,) = missing_images(["turnwise/TinyDesktop-v0"], sandbox_settings(), here=True)
    assert "Docker lacks the image desktop: run `turnwise sandbox build desktop`" in reason


def test_the_declared_memory_of_a_desktop_is_that_of_its_sandbox() -> None:
    assert {sandbox_memory_mib(one) for one in ("turnwise/Desktop-v0", "turnwise/TinyDesktop-v0")} == {1024}

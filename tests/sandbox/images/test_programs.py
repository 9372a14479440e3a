"""Drivers and apps are part of an image, and the tag of the image names their content."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.errors import NoImage
from turnwise.sandbox.images import reference
from turnwise.sandbox.images.build import copy_context
from turnwise.sandbox.images.reference import PROGRAMS, PROGRAMS_FOLDER, image_reference, recipe_files, recipe_hash
from turnwise.sandbox.provider import InProcessProvider


@pytest.fixture
def own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Add a program to the image ``code`` and return its folder."""
    (tmp_path / "envs/mine/__pycache__").mkdir(parents=True)
    (tmp_path / "envs/mine/__pycache__/x.pyc").write_bytes(b"bytecode")
    (tmp_path / "envs/mine/inner").mkdir()
    (tmp_path / "envs/mine/inner/main.py").write_text("print(1)\n")
    monkeypatch.setattr(reference, "PACKAGE_FOLDER", tmp_path)
    monkeypatch.setitem(PROGRAMS, "code", {"mine": "envs/mine"})
    recipe_hash.cache_clear()
    yield tmp_path / "envs/mine"
    recipe_hash.cache_clear()


def test_the_tag_names_the_content_of_the_programs(own_program: Path) -> None:
    first = image_reference("code")
    recipe_hash.cache_clear()
    assert image_reference("code") == first
    (own_program / "inner/main.py").write_text("print(2)\n")
    recipe_hash.cache_clear()
    assert image_reference("code") != first


def test_the_context_of_a_build_holds_the_programs_readable_by_all(own_program: Path, tmp_path: Path) -> None:
    (own_program / "inner/main.py").chmod(0o600)
    context = tmp_path / "context"
    copy_context("code", context)
    assert sorted(str(file.relative_to(context)) for file in context.rglob("*") if file.is_file()) == [
        "Dockerfile",
        "programs/mine/inner/main.py",
    ]
    assert (context / "programs/mine/inner/main.py").stat().st_mode & 0o777 == 0o644
    assert (context / "programs/mine/inner").stat().st_mode & 0o777 == 0o755


@pytest.fixture
def docker() -> Iterator[InProcessProvider]:
    """Provide Docker sandboxes to one test."""
    provider = InProcessProvider("docker", capacity=1, warm=0)
    yield provider
    provider.close()


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.usefixtures("own_program")
def test_changed_program_without_a_new_image_is_refused_with_the_remedy(docker: InProcessProvider) -> None:
    with pytest.raises(NoImage, match=r"`turnwise sandbox build`"):
        docker.lease(SandboxSpec(), timeout_s=30)


@pytest.mark.slow
@pytest.mark.docker
def test_the_image_holds_the_programs_of_this_package(docker: InProcessProvider) -> None:
    digests = {
        path.removeprefix("programs/"): hashlib.sha256(file.read_bytes()).hexdigest()
        for path, file in recipe_files("web").items()
        if path.startswith("programs/")
    }
    assert {path.partition("/")[0] for path in digests} == set(PROGRAMS["web"])
    command = (
        f"cd {PROGRAMS_FOLDER} && find . -type f ! -name '*.pyc' ! -path './apps/compiled/*' -exec sha256sum {{}} +"
    )
    with docker.lease(SandboxSpec(image="web"), timeout_s=30) as sandbox:
        done = sandbox.exec(["sh", "-c", command], timeout_s=10)
    found = dict(line.split()[::-1] for line in done.stdout.decode().splitlines())
    assert found == {f"./{path}": digest for path, digest in digests.items()}

"""Drivers and apps are part of an image, and the tag of the image names their content."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.sandbox import SandboxSpec
from turnwise.sandbox.errors import NoImage
from turnwise.sandbox.images.build import copy_context
from turnwise.sandbox.images.reference import (
    GROUP,
    PROGRAMS_FOLDER,
    image_reference,
    recipe,
    recipe_hash,
    registered,
)
from turnwise.sandbox.provider import InProcessProvider

MINE = """
from pathlib import Path
from turnwise.sandbox.images.reference import ImageRecipe
FOLDER = Path(__file__).parent
IMAGE = ImageRecipe(FOLDER / "image", {"program": FOLDER / "program"})
"""


@pytest.fixture
def own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Register an image ``mine`` as an installed package does, and return the folder of its program."""
    program = tmp_path / "package/mine_image/program"
    (program / "__pycache__").mkdir(parents=True)
    (program / "__pycache__/x.pyc").write_bytes(b"bytecode")
    (program / "inner").mkdir()
    (program / "inner/main.py").write_text("print(1)\n")
    (program.parent / "image").mkdir()
    (program.parent / "image/Dockerfile").write_text("ARG BASE\nFROM $BASE\nCOPY programs /opt/turnwise\n")
    (program.parent / "__init__.py").write_text(MINE)
    (tmp_path / "package/mine-1.dist-info").mkdir()
    (tmp_path / "package/mine-1.dist-info/entry_points.txt").write_text(f"[{GROUP}]\nmine = mine_image:IMAGE\n")
    monkeypatch.syspath_prepend(tmp_path / "package")
    forget()
    yield program
    forget()


def forget() -> None:
    for cached in (registered, recipe, recipe_hash):
        cached.cache_clear()


def test_the_tag_names_the_content_of_the_programs(own_program: Path) -> None:
    first = image_reference("mine")
    forget()
    assert image_reference("mine") == first
    (own_program / "inner/main.py").write_text("print(2)\n")
    forget()
    assert image_reference("mine") != first


def test_the_context_of_a_build_holds_the_programs_readable_by_all(own_program: Path, tmp_path: Path) -> None:
    (own_program / "inner/main.py").chmod(0o600)
    context = tmp_path / "context"
    copy_context("mine", context)
    assert sorted(str(file.relative_to(context)) for file in context.rglob("*") if file.is_file()) == [
        "Dockerfile",
        "programs/program/inner/main.py",
    ]
    assert (context / "programs/program/inner/main.py").stat().st_mode & 0o777 == 0o644
    assert (context / "programs/program/inner").stat().st_mode & 0o777 == 0o755


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
        docker.lease(SandboxSpec(image="mine"), timeout_s=30)


@pytest.mark.slow
@pytest.mark.docker
def test_the_image_holds_the_programs_of_this_package(docker: InProcessProvider) -> None:
    digests = {
        path.removeprefix("programs/"): hashlib.sha256(file.read_bytes()).hexdigest()
        for path, file in recipe("web").files().items()
        if path.startswith("programs/")
    }
    assert {path.partition("/")[0] for path in digests} == set(recipe("web").programs)
    command = (
        f"cd {PROGRAMS_FOLDER} && find . -type f ! -name '*.pyc' ! -path './apps/compiled/*' -exec sha256sum {{}} +"
    )
    with docker.lease(SandboxSpec(image="web"), timeout_s=30) as sandbox:
        done = sandbox.exec(["sh", "-c", command], timeout_s=10)
    found = dict(line.split()[::-1] for line in done.stdout.decode().splitlines())
    assert found == {f"./{path}": digest for path, digest in digests.items()}

"""Python packages of images are pinned by content: pip refuses a wheel without a listed hash."""

import re
from pathlib import Path

import pytest
from turnwise.sandbox.images.build import BuildFailed, download_wheels
from turnwise.sandbox.images.reference import recipe, registered

FOLDERS = [recipe(image).folder for image in registered()]
FILES = [file for folder in FOLDERS for file in folder.glob("requirements.txt")]


@pytest.mark.parametrize("file", FILES, ids=[file.parent.parent.name for file in FILES])
def test_every_package_has_a_version_and_hashes(file: Path) -> None:
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    for line in text.strip().splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+( +--hash=sha256:[0-9a-f]{64})+", line), line


def test_a_package_without_a_hash_is_not_downloaded(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("miniwob==1.1.0\n")
    with pytest.raises(BuildFailed, match="require-hashes"):
        download_wheels(tmp_path, print)

"""pyproject.toml lists every package of the tree; an unlisted one is missing from the wheel."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_SHIPPED = {"tests", "benchmarks", "examples", "docs", "tools", "build", "dist", "runs"}


def shipped_folders() -> list[Path]:
    tops = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in NOT_SHIPPED]
    return [path for path in tops if not path.name.startswith((".", "__")) and not path.name.endswith(".egg-info")]


def package_folders() -> set[Path]:
    return {ROOT} | {path.parent for folder in shipped_folders() for path in folder.rglob("__init__.py")}


def test_package_list_is_the_tree() -> None:
    names = {".".join(("turnwise", *folder.relative_to(ROOT).parts)) for folder in package_folders()}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == names


def test_every_module_is_in_a_package() -> None:
    packages = package_folders()
    strays = {path for folder in shipped_folders() for path in folder.rglob("*.py") if path.parent not in packages}
    assert strays == set()


def test_every_other_file_of_a_package_is_package_data() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    forgotten = []
    for folder in package_folders() - {ROOT}:
        name = ".".join(("turnwise", *folder.relative_to(ROOT).parts))
        for path in folder.iterdir():
            listed = any(path.match(pattern) for pattern in data.get(name, []))
            if path.is_file() and path.suffix not in {".py", ".pyc", ".md"} and not listed:
                forgotten.append(str(path.relative_to(ROOT)))
    assert forgotten == []


def locked() -> dict[str, tuple[str, list[str]]]:
    """Return the version and the hashes of each package of the lock, in the lock's order."""
    text = (ROOT / "requirements.lock").read_text().replace(" \\\n", " ")
    entries = [line.split() for line in text.splitlines() if not line.startswith("#")]
    found = {}
    for pin, *hashes in entries:
        name, version = pin.split("==")
        assert name not in found
        found[name] = (version, hashes)
    return found


def test_lock_pins_every_dependency() -> None:
    lock = locked()
    assert list(lock) == sorted(lock, key=str.lower)
    versions = {canonicalize_name(name): version for name, (version, _) in lock.items()}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"]]
    for extra in ("train", "cpu", "postgres", "tensorboard", "exchange", "dev"):
        wanted += [text for text in extras[extra] if not text.startswith("turnwise[")]
    for requirement in map(Requirement, wanted):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in requirements.lock: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement} is not met by {version}: run `make lock`"
    assert not {"torchaudio", "torchcodec"} & set(versions)


def test_lock_holds_hashes_of_every_package_but_torch() -> None:
    lock = locked()
    assert {name for name, (_, hashes) in lock.items() if not hashes} == {"torch"}
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for _, hashes in lock.values() for one in hashes)
    assert len(lock["numpy"][1]) >= 4, "compiled packages need the hashes of more than one platform"

"""What every test shares: hypothesis without a time limit, and marks that follow from what a test needs.

A test that needs the machine for itself (it stops the Docker engine for everybody, or measures time) is marked `alone`
where it is defined. The others run in lanes (`tools/run_tests.sh`), one group of tests at a time in each:

* the tests that start sandboxes are one group, so that no two of them share the Docker engine at one time;
* every other module is a group, so that its fixtures are made once.

Groups that start whole runs come first, because they take longest.
"""

import pytest
from hypothesis import settings

settings.register_profile("turnwise", deadline=None)
settings.load_profile("turnwise")

FIXTURES = {
    "docker": {"any_sandboxes", "browsers", "docker", "sandboxes"},
    "postgres": {"server"},
}
"""Marks, and the fixtures whose tests they are given to."""
PARAMETERS = {"docker": "docker", "postgresql": "postgres"}
"""Parameters of tests and fixtures, and the mark that each stands for."""
FIRST = ("chaos", "docker", "slow", "postgres")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark and group the tests; under xdist, put the long groups first."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        marks = {mark for mark, names in FIXTURES.items() if names & fixtures}
        marks |= {PARAMETERS[one] for one in parameters if isinstance(one, str) and one in PARAMETERS}
        for mark in sorted(marks):
            item.add_marker(mark)
        item.add_marker(pytest.mark.xdist_group(group(item)))
    if hasattr(config, "workerinput"):
        rank = {name: min(map(_rank, found)) for name, found in _by_group(items).items()}
        items.sort(key=lambda item: rank[group(item)])


def group(item: pytest.Item) -> str:
    """Return the group that a test runs in."""
    return "docker" if item.get_closest_marker("docker") else item.nodeid.partition("::")[0]


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, mark in enumerate(FIRST) if item.get_closest_marker(mark)), len(FIRST))


def _by_group(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    found: dict[str, list[pytest.Item]] = {}
    for item in items:
        found.setdefault(group(item), []).append(item)
    return found

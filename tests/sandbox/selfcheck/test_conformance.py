"""Both backends do what the rest of turnwise relies on; the cases are the package's own."""

import asyncio

import pytest
from turnwise.sandbox.backends.registry import backend
from turnwise.sandbox.selfcheck.conformance.run import CASES, conform
from turnwise.sandbox.selfcheck.harness import Result

pytestmark = pytest.mark.slow


def results_of(name: str) -> dict[str, Result]:
    async def work() -> list[Result]:
        held = backend(name, "tests", allow_untrusted=True)
        try:
            return await conform(held)
        finally:
            await held.close()

    return {result.name: result for result in asyncio.run(work())}


@pytest.fixture(scope="module")
def docker() -> dict[str, Result]:
    return results_of("docker")


@pytest.fixture(scope="module")
def local() -> dict[str, Result]:
    return results_of("local")


@pytest.mark.parametrize("case", CASES)
def test_docker_conforms(docker: dict[str, Result], case: str) -> None:
    assert docker[case].ok, docker[case].detail


@pytest.mark.parametrize("case", CASES)
def test_local_conforms(local: dict[str, Result], case: str) -> None:
    assert local[case].ok, local[case].detail

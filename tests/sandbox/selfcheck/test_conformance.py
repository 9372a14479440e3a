"""Both backends pass every conformance case of the package."""

import asyncio

import pytest
from turnwise.sandbox.backends.registry import make_backend
from turnwise.sandbox.selfcheck.harness import CaseResult
from turnwise.sandbox.selfcheck.run import CASES, run_conformance

LANES = 4
"""Cases at a time; most of their time is waiting."""

pytestmark = [pytest.mark.slow, pytest.mark.docker]


def results_of(name: str) -> dict[str, CaseResult]:
    async def work() -> list[CaseResult]:
        backend = make_backend(name, "tests", allow_untrusted=True)
        try:
            return await run_conformance(backend, lanes=LANES)
        finally:
            await backend.close()

    return {result.name: result for result in asyncio.run(work())}


@pytest.fixture(scope="module")
def docker() -> dict[str, CaseResult]:
    return results_of("docker")


@pytest.fixture(scope="module")
def local() -> dict[str, CaseResult]:
    return results_of("local")


@pytest.mark.parametrize("case", CASES)
def test_docker_conforms(docker: dict[str, CaseResult], case: str) -> None:
    assert docker[case].ok, docker[case].detail


@pytest.mark.parametrize("case", CASES)
def test_local_conforms(local: dict[str, CaseResult], case: str) -> None:
    assert local[case].ok, local[case].detail

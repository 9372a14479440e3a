"""One server per app, shared by the tests of a session; each test opens it with its own world."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from turnwise.envs.worlds.web.apps.tasks import SITES
from turnwise.tests.envs.worlds.web.apps.running import Served


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Served]]:
    with ExitStack() as stack:
        yield {site: stack.enter_context(closing(Served(site, tmp_path_factory.mktemp(site)))) for site in SITES}

"""A lost node is replaced as a lost sandbox is."""

from typing import Any

import pytest
from turnwise.envs.computer.driver_client import DriverClient, Steps
from turnwise.envs.web.browser_session import BROWSER
from turnwise.sandbox import NodeLost, SandboxError, SandboxLost, SandboxSpec
from turnwise.sandbox.provider import InProcessProvider


class Losing(DriverClient):
    """A client whose first request fails with ``error``, and that counts its new sandboxes."""

    def __init__(self, error: SandboxError) -> None:
        super().__init__(BROWSER)
        self.errors = [error]
        self.renewals = 0

    @property
    def expired(self) -> bool:
        return False

    def renew(self) -> None:
        self.renewals += 1

    def _request(self, steps: Steps, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        if self.errors:
            raise self.errors.pop()
        return {"opened": True}, b""


@pytest.mark.parametrize("error", [SandboxLost("gone"), NodeLost("gone")])
def test_a_loss_before_the_episode_is_retried_in_a_new_sandbox(error: SandboxError) -> None:
    provider = InProcessProvider("local", capacity=1, warm=0)
    client = Losing(error)
    with provider.lease(SandboxSpec(trusted=True), timeout_s=30) as sandbox:
        client.sandbox = sandbox
        assert client.open([]) == ({"opened": True}, b"")
        assert client.renewals == 1
    provider.close()

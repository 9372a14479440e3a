"""A lost node is replaced as a lost sandbox is; the timeouts fit into one another."""

import ast
import json
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from turnwise.agents.rollout.timeouts import Timeouts
from turnwise.envs.worlds.computer.driver_client import STEP_TIMEOUT_S, DriverClient, Steps, request_timeout_s
from turnwise.envs.worlds.web import browser_session, driver
from turnwise.envs.worlds.web.browser_session import BROWSER, ROOT, BrowserSession, SiteServer
from turnwise.sandbox import NodeLost, SandboxBroken, SandboxError, SandboxLease, SandboxLost, SandboxSpec
from turnwise.sandbox.provider import InProcessProvider
from turnwise.sandbox.sandbox import ExecResult


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


@pytest.mark.parametrize("error", [SandboxBroken("full"), SandboxLost("killed")])
def test_a_broken_sandbox_is_an_outcome_and_a_lost_one_a_failure(error: SandboxError) -> None:
    provider = InProcessProvider("local", capacity=1, warm=0)
    client = DriverClient(BROWSER)
    with provider.lease(SandboxSpec(trusted=True), timeout_s=30) as sandbox:

        def request(*arguments: object, **options: object) -> None:
            raise error

        sandbox.request = request  # type: ignore[method-assign, assignment]
        client.sandbox = sandbox
        if isinstance(error, SandboxBroken):
            assert client.do([]) == ({"lost": "the browser broke its sandbox: full", "broken": "full"}, b"")
        else:
            with pytest.raises(SandboxLost):
                client.do([])
        assert client.sandbox is None
    provider.close()


class Reopening(BrowserSession):
    """A browser whose new sandbox is the present one."""

    leased: SandboxLease

    def renew(self) -> None:
        self.sandbox = self.leased


@pytest.mark.parametrize("fault", ["page", "machine"])
def test_a_site_that_hangs_names_its_address_its_command_and_its_last_output(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_session, "SITE_USER", 0)  # a local sandbox has one user
    provider = InProcessProvider("local", capacity=1, warm=0)
    client, lost = Reopening(), {"lost": "the page did not respond", "fault": fault}
    with provider.lease(SandboxSpec(trusted=True), timeout_s=30) as sandbox:
        sandbox.write({f"{ROOT}/log": b"waits for a lock"}, timeout_s=5)
        sandbox.request = lambda *_, **__: ExecResult(0, json.dumps(lost).encode(), b"")  # type: ignore[method-assign]
        client.leased, client._server = sandbox, SiteServer({}, "python serve.py", 8080)
        with pytest.raises(SandboxError) as raised:
            client.open([{"do": "open", "url": "http://127.0.0.1:8080/"}])
        for part in ("http://127.0.0.1:8080/", "`python serve.py`", "waits for a lock"):
            assert part in str(raised.value)
    provider.close()


def test_a_page_that_a_screenshot_finds_lost_is_lost_for_the_next_turn() -> None:
    """The page that replaces it is another world: the policy's action on the lost one must not happen there."""
    provider = InProcessProvider("local", capacity=1, warm=0)
    client, asked = DriverClient(BROWSER), list[Any]()
    lost = {"lost": "the page did not respond", "fault": "page"}
    answers = [lost, {"nodes": []}, lost, {"opened": True}, {"nodes": []}]
    with provider.lease(SandboxSpec(trusted=True), timeout_s=30) as sandbox:

        def request(_: str, message: bytes, **options: object) -> ExecResult:
            asked.extend(step["do"] for step in json.loads(message)["steps"])
            return ExecResult(0, json.dumps(answers[len(asked) - 1]).encode(), b"")

        sandbox.request = request  # type: ignore[method-assign, assignment]
        client.sandbox, client._leased_at = sandbox, monotonic()
        assert client.screenshot() is None
        assert client.screenshot() is None
        assert client.do([{"do": "act"}]) == (lost, b"")
        assert client.do([{"do": "noop"}]) == ({"nodes": []}, b"")
        assert client.screenshot() is None
        assert client.open([{"do": "open"}]) == ({"opened": True}, b"")
        assert client.do([{"do": "act"}]) == ({"nodes": []}, b"")
        assert asked == ["observe", "noop", "observe", "open", "act"]
    provider.close()


def constant(module: str, name: str) -> Any:
    """Return a constant of the browser's driver, which imports only inside its sandbox."""
    (folder,) = driver.__path__
    for statement in ast.parse((Path(folder) / f"{module}.py").read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{module}.py has no constant {name}")


def test_a_browser_that_does_not_restart_is_an_outcome_before_the_step_times_out() -> None:
    attempts = sum(constant("browser", "RESTART_TIMEOUTS_S")) + constant("browser", "CLOSE_TIMEOUT_S")
    replaced = constant("server", "REPLACE_TIMEOUT_S")
    assert attempts < replaced
    decided = STEP_TIMEOUT_S + constant("elements", "CLEANUP_TIMEOUT_S")
    ended = decided + replaced + constant("chromium", "END_TIMEOUT_S")
    assert ended + 3 < request_timeout_s(STEP_TIMEOUT_S) < Timeouts().step_s

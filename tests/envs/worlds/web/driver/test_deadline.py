"""After the deadline of a request, nothing of its action is awaited: the page does not respond, and is given up."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from turnwise.envs.worlds.web.driver import act as module
from turnwise.envs.worlds.web.driver.elements import Refused

DEADLINE_S = 0.05


async def never(*_: object, **__: object) -> None:
    await asyncio.Event().wait()


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The contexts whose effects were awaited."""
    found: list[object] = []

    async def settle(context: object) -> None:
        found.append(context)

    monkeypatch.setattr(module, "settle", settle)
    return found


def context(**more: Any) -> Any:
    async def closed_since(*_: object) -> bool:
        return False

    fields = {"pointed": False, "dirty": False, "closings": 0, "closed_since": closed_since, "has_lost_page": False}
    return SimpleNamespace(**fields, **more)


def ended(work: Any) -> None:
    """Await work whose deadline passes, and which must end then."""

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(DEADLINE_S):
                await work

    asyncio.run(asyncio.wait_for(run(), 20 * DEADLINE_S))


def test_an_action_that_does_not_end_is_not_settled(monkeypatch: pytest.MonkeyPatch, settled: list[object]) -> None:
    monkeypatch.setitem(module.VERBS, "click", never)
    ended(module.act(context(), {"verb": "click"}))
    assert settled == []


def test_a_refused_action_is_settled_once(monkeypatch: pytest.MonkeyPatch, settled: list[object]) -> None:
    async def refuse(*_: object) -> None:
        raise Refused("no")

    monkeypatch.setitem(module.VERBS, "click", refuse)
    with pytest.raises(Refused):
        asyncio.run(module.act(context(), {"verb": "click"}))
    assert len(settled) == 1


def test_a_drag_that_does_not_end_does_not_wait_for_the_button() -> None:
    async def done(*_: object, **__: object) -> None:
        pass

    mouse = SimpleNamespace(down=done, up=never)
    of = context(tab=SimpleNamespace(page=SimpleNamespace(mouse=mouse)))
    ended(module.drag(of, SimpleNamespace(hover=done), SimpleNamespace(hover=never)))

"""The example site of docs/shipped_environments/web.md, unchanged, in a real browser."""

import re
from pathlib import Path

import pytest
from turnwise.envs import make
from turnwise.envs.web.custom_site import CustomSiteEnv, FinalState, SiteTask

PAGE = Path(__file__).resolve().parents[3] / "docs" / "shipped_environments" / "web.md"


class Lamps(CustomSiteEnv):
    """A site that overrides nothing."""


def test_a_missing_method_is_named() -> None:
    env = Lamps()
    with pytest.raises(NotImplementedError, match=r"Lamps does not implement task\(seed, split\)"):
        env.reset(seed=0)
    with pytest.raises(NotImplementedError, match=r"Lamps does not implement check\(final\)"):
        env.check(FinalState(SiteTask("look"), "", "", {}))


@pytest.mark.usefixtures("browsers")
def test_the_example_site_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "lamps.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    env = make("lamps:Lamps-v0")
    try:
        for seed, right in ((0, "red"), (1, "blue")):
            for wanted, success in ((right, True), ("blue" if right == "red" else "red", False)):
                seen, _ = env.reset(seed=seed)
                found = re.search(rf"\[(\d+)\] link '{wanted}'", str(seen))
                assert found, seen
                after = env.step(f"click({found.group(1)})")[0]
                assert f"/{wanted}.html" in str(after)
                _, reward, over, _, info = env.step('send_msg_to_user("done")')
                assert (reward, over, info["success"]) == (float(success), True, success)
        for path in ("?red", "?/red.html", "#/red.html", "nothing/red.html"):
            env.reset(seed=0)
            env.step(f'goto("http://127.0.0.1:8080/{path}")')
            assert not env.step('send_msg_to_user("done")')[4]["success"]
    finally:
        env.close()

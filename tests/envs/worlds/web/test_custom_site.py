"""The example site of docs/shipped_environments/web.md, unchanged, in a real browser."""

import re
from pathlib import Path

import pytest
from turnwise.envs import make
from turnwise.envs.worlds.web.apps.state import opened
from turnwise.envs.worlds.web.custom_site import CustomSiteEnv, FinalState, SiteTask
from turnwise.sandbox.errors import NoImage

PAGE = Path(__file__).resolve().parents[4] / "docs" / "shipped_environments" / "web.md"


class Lamps(CustomSiteEnv):
    """A site that overrides nothing."""


def test_a_missing_method_is_named() -> None:
    env = Lamps()
    with pytest.raises(NotImplementedError, match=r"Lamps does not implement task\(seed, split\)"):
        env.reset(seed=0)
    with pytest.raises(NotImplementedError, match=r"Lamps does not implement check\(final\)"):
        env.check(FinalState(SiteTask("look"), "", "", {}))


def test_a_method_that_hides_an_attribute_is_refused_when_the_class_is_made() -> None:
    for name, owner in (("nodes", "ScreenEnv"), ("goal", "ScreenEnv"), ("folder", "CustomSiteEnv")):
        message = rf"`Pizza.{name}` is a method, but `{name}` is an attribute of `{owner}`: rename the method"
        with pytest.raises(TypeError, match=message):
            type("Pizza", (Lamps,), {name: lambda self: []})
    type("Pizza", (Lamps,), {"folder": property(lambda self: Path())})


SERVER = """
import http.server, sqlite3
db = sqlite3.connect("shop.db", check_same_thread=False)
db.execute("CREATE TABLE orders (pizza TEXT, size TEXT)")
class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if "?" in self.path:
            db.execute("INSERT INTO orders VALUES (?, 'small')", (self.path.partition("pizza=")[2],))
            db.commit()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>Shop</title><form><input name=pizza aria-label=Pizza><button>Order</button></form>")
http.server.HTTPServer(("127.0.0.1", 8080), Shop).serve_forever()
"""


class Shop(CustomSiteEnv):
    """A site with a server and a database of its own, as a user writes it."""

    def server_command(self) -> str:
        """Return the command of the server."""
        return "python3 server.py"

    def task(self, seed: int, split: str) -> SiteTask:
        """Return the task, with an oracle that names elements."""
        oracle = ("fill({textbox 'Pizza'}, \"Funghi\")", "click({button 'Order'})", 'send_msg_to_user("done")')
        return SiteTask("Order a small Funghi.", files={"server.py": SERVER.encode()}, data="large", oracle=oracle)

    def check(self, final: FinalState) -> dict[str, bool]:
        """Check each column of the row of the database."""
        with opened(final.files["shop.db"]) as database:
            rows = database.execute("SELECT pizza, size FROM orders").fetchall()
        return {"pizza": [row[0] for row in rows] == ["Funghi"], "size": [row[1] for row in rows] == [final.task.data]}


@pytest.mark.usefixtures("browsers")
def test_a_site_with_a_database_an_oracle_and_partial_credit() -> None:
    env = Shop(observation="both", coordinates=(1000, 1000))
    try:
        env.reset(seed=0)
        with pytest.raises(LookupError, match=r"not on the screen; in view: .*button 'Order'"):
            env.resolve("click({link 'Order'})")
        for _ in range(3):
            _, reward, over, _, info = env.step(env.oracle())
        assert (reward, over, info["success"], info["reward_parts"]) == (0.5, True, False, {"pizza": 0.5})
        with pytest.raises(NotImplementedError, match="the task of `Shop` has no oracle for this turn"):
            env.oracle()
        env.reset(seed=0)
        button = next(node["rect"] for node in env.nodes if node["role"] == "button")
        x, y = (button[0] + button[2] / 2) / 640 * 1000, (button[1] + button[3] / 2) / 480 * 1000
        _, _, _, _, info = env.step(f"click({x}, {y})")
        assert info["targets"] == [[button[0] + button[2] / 2, button[1] + button[3] / 2]]
        seen = str(env.step("noop(99999)")[0])
        assert "! the wait was cut to 3000 ms" in seen
        assert "?pizza=" in seen
    finally:
        env.close()


@pytest.mark.usefixtures("browsers")
def test_the_image_of_a_subclass_is_leased_and_named_if_it_is_unknown() -> None:
    env = type("Pizza", (Shop,), {"sandbox_image": "webb"})()
    with pytest.raises(NoImage, match="webb"):
        env.reset(seed=0)


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

"""The browser context of an episode serves the next one as a new context would.

Each case plays an episode that leaves state behind, and then one that displays all state that a page can read. The
renderer's process id shows whether the context was emptied or replaced.
"""

from typing import Any

import pytest
from turnwise.envs.worlds.web.browser_session import BROWSER_USER, FILES, SITE_USER, BrowserSession
from turnwise.envs.worlds.web.custom_site import CustomSiteEnv, FinalState, SiteTask
from turnwise.tests.envs.worlds.web.hostile_site import number_of

READ = """(async () => ({
  cookie: document.cookie, local: {...localStorage}, session: {...sessionStorage}, name: window.name,
  history: history.length, opener: !!opener, databases: (await indexedDB.databases()).length,
  caches: await caches.keys(), files: await Array.fromAsync((await navigator.storage.getDirectory()).keys()),
  locks: (await navigator.locks.query()).held.length, focus: document.hasFocus(),
  notify: (await navigator.permissions.query({name: 'notifications'})).state, zoom: [devicePixelRatio, innerWidth],
  versions: [window.version, +getComputedStyle(document.body).zIndex, document.images[0].naturalWidth],
  later: typeof fetchLater, active: navigator.userActivation.hasBeenActive,
}))()"""
WRITE = """(async () => {
  document.cookie = 'left=cookie; max-age=9999';
  localStorage.left = sessionStorage.left = window.name = 'left';
  await new Promise(done => {
    const request = indexedDB.open('left');
    request.onupgradeneeded = () => request.result.createObjectStore('left');
    request.onsuccess = done;
  });
  await (await caches.open('left')).put('/left', new Response('left'));
  await (await navigator.storage.getDirectory()).getFileHandle('left', {create: true});
  history.pushState(0, '', '#left');
  Notification.requestPermission();
  navigator.locks.request('left', () => new Promise(() => {}));
  for (const event of ['pagehide', 'unload', 'visibilitychange'])
    for (const target of [window, document]) target.addEventListener(event, () => {
      navigator.sendBeacon('/left');
      document.cookie = localStorage.late = 'left';
    });
  document.querySelector('p').textContent = 'written';
})()"""
LEAVES = {
    "state": WRITE,
    "elsewhere": f"location.hostname === 'localhost' ? {WRITE} : void (location.hostname = 'localhost')",
    "tabs": (
        "new Promise(done => window.open('/write').onload = event =>"
        f" event.target.defaultView.eval({WRITE!r}).then(done))"
    ),
    "worker": f"{WRITE}.then(() => void new Worker('data:text/javascript,for(;;);'))",
    "lasting": (
        "void new SharedWorker(`data:text/javascript,setInterval(() => fetch('http://127.0.0.1:8080/left',"
        " {mode: 'no-cors'}), 20)`, {extendedLifetime: true})"
    ),
    "foreign": (
        "new Promise(done => document.body.append(Object.assign(document.createElement('iframe'),"
        " {src: 'http://localhost:8080/leaves.frame', onload: done})))"
    ),
    "frame": f"{WRITE}.then(() => document.body.append(Object.assign(document.createElement('iframe'), {{src: '/'}})))",
    "password": f"{WRITE}.then(() => void (location.href = 'http://user:word@127.0.0.1:8080/private'))",
    "polling": f"{WRITE}.then(() => setInterval(() => fetch('/left', {{method: 'POST'}}), 1))",
}
"""Scripts that end once their state is left behind."""
EMPTIED = ("state", "elsewhere", "tabs", "foreign", "frame")
SERVER = b'''
import http.server, os
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FILES = {
    "js": b"window.version = VERSION",
    "css": b"body { z-index: VERSION }",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='VERSION' height='9'/>",
    "frame": b"<script>addEventListener('pagehide', () => navigator.sendBeacon('/left'))</script>",
}
PAGE = b"""
<title>page</title><link rel=stylesheet href=/version.css><script src=/version.js></script>
<h1>page</h1><p>nothing</p><a href=/next>next</a><img src=/version.svg style="position: absolute; opacity: 0">
"""
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/left"):
            open("left", "a").write(self.path)
        private = self.path.startswith("/private") and "Authorization" not in self.headers
        self.send_response(401 if private else 200)
        if private:
            self.send_header("WWW-Authenticate", "Basic realm=x")
        kind = self.path.rpartition(".")[2]
        self.send_header("Content-Type", TYPES.get(kind, "text/html"))
        self.send_header("Cache-Control", "max-age=3600")
        self.end_headers()
        self.wfile.write(FILES.get(kind, PAGE).replace(b"VERSION", open("version", "rb").read()))
    do_POST = do_GET
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
'''


class Leaving(CustomSiteEnv):
    """A site that records the requests to paths that begin with ``/left``."""

    def task(self, seed: int, split: str) -> SiteTask:
        return SiteTask("press", "/", {"server.py": SERVER, "version": b"%d" % seed})

    def server_command(self) -> str:
        return "python3 -I server.py"

    def check(self, final: FinalState) -> bool:
        return "left" not in final.files


@pytest.fixture(scope="module")
def env(browser: BrowserSession) -> Leaving:
    made = Leaving(observation="both")
    made.browser = browser
    return made


def run(env: Leaving, script: str) -> Any:
    """Return the value of a script in the page."""
    answer, _ = env.browser.do([{"do": "script", "script": script, "settle": True}])
    return answer["values"][0] if "values" in answer else answer


TRIES = 3
"""A renderer that a busy machine does not let answer in time is replaced, although it could be kept."""


def renderers(env: Leaving) -> set[str]:
    """Return the process ids of the renderers."""
    assert env.browser.sandbox
    found = env.browser.sandbox.exec(["pgrep", "-f", "type=renderer"], timeout_s=5, user=BROWSER_USER).stdout
    return set(found.decode().split())


def state(env: Leaving, seed: int) -> dict[str, Any]:
    """Return the state that the page can read, at two addresses; the site has a version per seed."""
    here = run(env, READ)
    assert env.step('goto("http://127.0.0.1:8080/second")')[4]["action_valid"]
    again = run(env, READ)
    run(env, "location.href = 'http://localhost:8080/'")
    found = {"here": here, "again": again, "there": run(env, READ)}
    assert [one.pop("versions") for one in found.values()] == [[seed] * 3] * 3, (
        "a file of an earlier episode was cached"
    )
    return found


@pytest.fixture(scope="module")
def clean(env: Leaving) -> tuple[object, dict[str, Any]]:
    """The first observation and the state of the first episode in a new browser."""
    env.browser.close()
    return env.reset(seed=1)[0], state(env, 1)


@pytest.mark.parametrize(("seed", "left"), [*enumerate(LEAVES, 10)])
def test_an_episode_finds_nothing_of_the_one_before(
    env: Leaving, clean: tuple[object, dict[str, Any]], seed: int, left: str
) -> None:
    kept: list[bool] = []
    while (left in EMPTIED) not in kept and len(kept) < TRIES:
        env.reset(seed=100 + seed)
        seen = env.step('goto("http://127.0.0.1:8080/second")')[0]
        env.step(f"click({number_of(seen, 'link')})")
        before = renderers(env)
        for _ in range(2 if left == "elsewhere" else 1):
            run(env, LEAVES[left])
        observation, _ = env.reset(seed=seed)
        assert observation == clean[0]
        kept.append(renderers(env) == before)
    assert kept[-1] == (left in EMPTIED)
    assert state(env, seed) == clean[1]
    assert env.step('send_msg_to_user("")')[4]["success"], "a page of the episode before sent a request"


def test_a_page_sends_nothing_when_its_episode_ends(env: Leaving) -> None:
    env.reset(seed=5)
    run(env, f"{WRITE}.then(() => {{ window.fetchLater?.('/left', {{activateAfter: 600000}}) }})")
    # The site keeps running, as that of MiniWoB++ does.
    opening = {"do": "open", "url": "http://127.0.0.1:8080/", "width": env.width, "height": env.height}
    env.browser.open([opening, {"do": "act", "action": {"verb": "noop", "ms": 100}}])
    files = env.browser.read_files(FILES, SITE_USER)
    assert files
    assert "left" not in files

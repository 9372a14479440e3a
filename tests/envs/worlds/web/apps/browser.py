"""A browser without rendering: real HTTP, cookies, links and forms, driven by ``Act``s."""

import http.client
import urllib.parse

from turnwise.envs.worlds.web.actions import ANSWER
from turnwise.envs.worlds.web.apps.tasks.template import Act

from .elements import Document, Element


class Browser:
    def __init__(self, port: int, path: str = "/") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self.cookies: dict[str, str] = {}
        self.pages: list[str] = []
        """Every page, as the server sent it."""
        self.statuses: list[int] = []
        self.answer: str | None = None
        self.get(path)

    def close(self) -> None:
        self.connection.close()

    def get(self, target: str, form: list[tuple[str, str]] | None = None) -> None:
        for _ in range(5):
            status, location, text = self._fetch(target, form)
            if status != 303:
                break
            target, form = location, None
        self.target, self.page = target, Document(text)
        self.pages.append(f"{target}\n{text}")
        self.statuses.append(status)

    def _fetch(self, target: str, form: list[tuple[str, str]] | None) -> tuple[int, str, str]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        body = None
        if form is not None:
            body = urllib.parse.urlencode([(name, value.replace("\n", "\r\n")) for name, value in form])
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        self.connection.request("GET" if form is None else "POST", target, body, headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        for header in response.headers.get_all("Set-Cookie", []):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies[name] = value
        return response.status, response.headers.get("Location", ""), text

    def do(self, *acts: Act) -> None:
        for act in acts:
            self._do(act)

    def find(self, act: Act) -> Element:
        found = [each for role, name, each in self.page.controls() if (role, name) == (act.role, act.name)]
        assert found, f"{act} is not on {self.target}: {self.page.names()}"
        assert len(found) == 1 or act.nth, f"{act} matches {len(found)} elements on {self.target}"
        return found[act.nth]

    def _do(self, act: Act) -> None:
        if act.verb == ANSWER:
            self.answer = act.value
            return
        element = self.find(act)
        match act.verb, element.role:
            case "fill", "textbox" | "searchbox":
                element.value = act.value
            case "select_option", "combobox":
                assert act.value in element.options(), f"{act}: {element.options()}"
                element.value = element.options()[act.value]
            case "press", "textbox" | "searchbox":
                assert act.value == "Enter"
                self._submit(element, None)
            case "click", "link":
                self.get(element.attributes["href"])
            case "click", "button":
                self._submit(element, element)
            case "click", "checkbox":
                element.checked = not element.checked
            case "click", "radio":
                self._choose(element)
            case _:
                raise AssertionError(act)

    def _choose(self, element: Element) -> None:
        for other in element.up("form") or ():
            if other.role == "radio" and other.attributes["name"] == element.attributes["name"]:
                other.checked = other is element

    def _submit(self, element: Element, button: Element | None) -> None:
        form = element.up("form")
        assert form is not None
        sent = []
        for each in form:
            name = each.attributes.get("name")
            ticked = each.role not in ("checkbox", "radio") or each.checked
            if name and each.tag in ("input", "select", "textarea", "button") and ticked:
                if each.tag == "button" and each is not button:
                    continue
                sent.append((name, each.value))
        if form.attributes["method"] == "get":
            self.get(form.attributes["action"] + "?" + urllib.parse.urlencode(sent))
        else:
            self.get(form.attributes["action"], sent)

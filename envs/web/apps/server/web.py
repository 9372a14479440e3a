"""A small web framework: routes, sessions, forms by POST with a redirect afterwards, and a common page layout.

A handler receives a ``Request`` and the numbers in its path, and returns a ``Page`` or a ``Redirect`` or raises
``Refused``. Requests are answered one at a time, each in one transaction. Sessions and the drafts of unfinished forms
are kept in memory, so that the database holds completed changes only. Session ids are consecutive numbers, so that the
same requests always get the same responses. Predictable ids are harmless here: the sandbox has a single user.
"""

import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .data import Data, Row
from .html import STYLE, Html, button, form, join, link, press, tag
from .html import field as text_field
from .requests import Form, parse_cookies, parse_form, query

PAGE_SIZE = 10


@dataclass
class Session:
    """The server's state of one browser."""

    number: int
    user_id: int | None = None
    flash: str = ""
    drafts: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Unfinished forms of several steps, by name."""


@dataclass
class Request:
    """One request. ``form`` is the body of a POST, otherwise empty; ``query`` is the part after the path."""

    site: "Site"
    path: str
    query: Form
    form: Form
    session: Session

    @property
    def db(self) -> Data:
        """The app's database."""
        return self.site.data

    @property
    def today(self) -> str:
        """The current date of the world, as YYYY-MM-DD."""
        return self.site.today

    def user(self) -> Row | None:
        """Return the logged-in user, or None."""
        return self.db.row("SELECT * FROM users WHERE id = ?", self.session.user_id)

    def member(self) -> Row:
        """Return the logged-in user.

        Raises:
            NeedsLogin: no user is logged in.
        """
        user = self.user()
        if user is None:
            raise NeedsLogin
        return user

    def one(self, sql: str, *values: Any) -> Row:
        """Return the row that the page is about.

        Raises:
            Refused: there is no such row.
        """
        row = self.db.row(sql, *values)
        if row is None:
            raise Refused("The page you requested does not exist.", 404)
        return row


@dataclass(frozen=True)
class Page:
    """A page: its title, which is also its heading, its content, and the errors of its form."""

    title: str
    body: Html
    errors: tuple[str, ...] = ()
    status: int = 200


@dataclass(frozen=True)
class Redirect:
    """A redirect, with a message that the next page displays."""

    to: str
    flash: str = ""


class Refused(Exception):
    """The app refuses a request; the page displays the message, and ``status`` is the HTTP status."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__(message)
        self.status = status


class NeedsLogin(Exception):
    """The page requires a login."""


Reply = Page | Redirect
Handler = Callable[..., Reply]


class Site:
    """An app: its schema, its handlers and, once opened, its data and sessions."""

    def __init__(self, name: str, title: str, schema: str, menu: Callable[[Request], list[Html]]) -> None:
        self.name, self.title, self.schema, self._menu = name, title, schema, menu
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []
        self._data: Data | None = None
        self.today = ""
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self.get("/login")(_login_page)
        self.post("/login")(_log_in)
        self.post("/logout")(_log_out)

    @property
    def data(self) -> Data:
        """The database.

        Raises:
            RuntimeError: the app is not open yet.
        """
        if self._data is None:
            raise RuntimeError(f"the site {self.name} is not open")
        return self._data

    def get(self, pattern: str) -> Callable[[Handler], Handler]:
        """Return a decorator that registers the handler of a page; ``{}`` in the pattern matches a number."""
        return self._register("GET", pattern)

    def post(self, pattern: str) -> Callable[[Handler], Handler]:
        """Return a decorator that registers the handler of a form."""
        return self._register("POST", pattern)

    def _register(self, method: str, pattern: str) -> Callable[[Handler], Handler]:
        compiled = re.compile(pattern.replace("{}", "([0-9]{1,9})"), re.ASCII)

        def register(handler: Handler) -> Handler:
            self._routes.append((method, compiled, handler))
            return handler

        return register

    def open(self, path: str, world: Mapping[str, Any]) -> None:
        """Create the database at ``path`` from the world. Close the previous database and delete all sessions.

        Raises:
            sqlite3.Error: the world does not match the schema, or the file is not new.
        """
        with self._lock:
            if self._data:
                self._data.close()
            self._data, self.today = Data(path, self.schema), world["today"]
            self.data.load(world["tables"])
            self._sessions.clear()

    def answer(self, method: str, target: str, body: str, cookies: str) -> tuple[int, dict[str, str], str]:
        """Return status, headers and body of the response.

        Raises:
            BadRequest: the form has too many fields.
        """
        path, _, search = target.partition("?")
        with self._lock:
            known = self._sessions.get(parse_cookies(cookies).get("session", ""))
            session = known or Session(len(self._sessions) + 1)
            self._sessions[str(session.number)] = session
            form = parse_form(body if method == "POST" else "")
            request = Request(self, urllib.parse.unquote(path), parse_form(search), form, session)
            reply = self._reply(method, request)
            headers = {} if known else {"Set-Cookie": f"session={session.number}; Path=/; HttpOnly; SameSite=Strict"}
            if isinstance(reply, Redirect):
                session.flash = reply.flash
                return 303, {**headers, "Location": reply.to}, ""
            text = self._frame(request, reply)
            session.flash = ""
            return reply.status, headers, text

    def _reply(self, method: str, request: Request) -> Reply:
        done = False
        try:
            reply = self._routed(method, request)
            done = not (isinstance(reply, Page) and reply.errors)
        except NeedsLogin:
            wanted = request.path if method == "GET" else "/"
            return Redirect("/login" + query({"next": wanted}), "Please log in to continue.")
        except Refused as refused:
            return Page(
                "Not found" if refused.status == 404 else "Not allowed",
                tag("p", refused.args[0]),
                status=refused.status,
            )
        finally:
            self.data.finish(commit=done and method == "POST")
        return reply

    def _routed(self, method: str, request: Request) -> Reply:
        for verb, pattern, handler in self._routes:
            match = pattern.fullmatch(request.path)
            if match and verb == method:
                return handler(request, *(int(number) for number in match.groups()))
        raise Refused("The page you requested does not exist.", 404)

    def _frame(self, request: Request, page: Page) -> str:
        user, session = request.user(), request.session
        account = (
            [tag("span", f"Logged in as {user['login']}"), press("Log out", "/logout")]
            if user
            else [link("Log in", "/login")]
        )
        status = tag("p", session.flash, role="status") if session.flash else None
        alert = tag("div", [tag("p", error) for error in page.errors], role="alert") if page.errors else None
        head = tag("head", tag("meta", charset="utf-8"), tag("title", f"{page.title} - {self.title}"), _STYLE)
        top = tag("header", tag("nav", link(self.title, "/"), self._menu(request), account, aria_label="Site"))
        main = tag("main", status, tag("h1", page.title), alert, page.body)
        return "<!DOCTYPE html>\n" + tag("html", head, tag("body", top, main), lang="en")


# An empty icon: the browser's request for a real icon could open a second session.
_STYLE = join(tag("link", rel="icon", href="data:,"), tag("style", Html(STYLE)))


def _login_page(request: Request) -> Page:
    return _login_form(request.query.text("next", "/"))


def _login_form(wanted: str, login: str = "", errors: tuple[str, ...] = ()) -> Page:
    fields = [text_field("User name", "login", login), text_field("Password", "password", kind="password")]
    return Page("Log in", form("/login" + query({"next": wanted}), fields, tag("p", button("Log in"))), errors)


def _log_in(request: Request) -> Reply:
    wanted, login = request.query.text("next", "/"), request.form.text("login")
    user = request.db.row("SELECT * FROM users WHERE login = ?", login)
    if user is None or user["password"] != request.form.text("password"):
        return _login_form(wanted, login, ("The user name or password is incorrect.",))
    request.session.user_id = user["id"]
    request.session.drafts.clear()
    local = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
    return Redirect(urllib.parse.quote(wanted) if local else "/", f"Welcome, {user['name']}.")


def _log_out(request: Request) -> Reply:
    request.session.user_id = None
    request.session.drafts.clear()
    return Redirect("/", "You have been logged out.")


def paged(request: Request, count: int) -> tuple[int, Html]:
    """Return the offset of the current page in a list of ``count`` items, and links to the previous and next pages."""
    last = max(1, -(-count // PAGE_SIZE))
    page = min(max(1, request.query.number("page") or 1), last)
    others = {name: values[-1] for name, values in request.query.items() if name != "page"}

    def to(number: int, text: str) -> Html | None:
        return link(text, request.path + query({**others, "page": number})) if 1 <= number <= last else None

    position = tag("span", f" Page {page} of {last}, {count} in total. ")
    return (page - 1) * PAGE_SIZE, tag("p", to(page - 1, "Previous page"), position, to(page + 1, "Next page"))


def confirm(question: str, yes: str, action: str, back: str) -> Page:
    """Return a page that asks for confirmation."""
    return Page(question, join(form(action, button(yes)), tag("p", link("Go back", back))))

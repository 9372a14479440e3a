"""A small web framework: routes, sessions, forms by POST with a redirect afterwards, and pages from Jinja templates.

A handler receives a ``Request`` and the numbers in its path, and returns a ``Page`` or a ``Redirect`` or raises
``Refused``. Requests are answered one at a time, each in one transaction. Sessions and the drafts of unfinished forms
are kept in memory, so that the database holds completed changes only. Session ids are consecutive numbers, so that the
same requests always get the same responses. Predictable ids are harmless here: the sandbox has a single user.
"""

import os
import re
import threading
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jinja2

from .choices import count_of, issue_name, line_name, money
from .data import Data, Row
from .requests import Form, parse_cookies, parse_form, query

FOLDER = os.path.dirname(os.path.abspath(__file__))
COMPILED = os.path.join(FOLDER, "compiled")
"""The compiled templates, which the image contains: a server that compiles them itself starts later."""
PAGE_SIZE = 10


class JoiningLoader(jinja2.FileSystemLoader):
    """Joins the lines of a template without the white space between them."""

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        """Return the source on one line."""
        source, path, is_fresh = super().get_source(environment, template)
        return "".join(line.strip() for line in source.splitlines()), path, is_fresh


TEMPLATES = jinja2.Environment(
    loader=jinja2.ModuleLoader(COMPILED)
    if os.path.isdir(COMPILED)
    else JoiningLoader(os.path.join(FOLDER, "templates")),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    auto_reload=False,
)
TEMPLATES.globals.update(count_of=count_of, issue_name=issue_name, line_name=line_name, money=money, query=query)


def compile_templates() -> None:
    """Write the compiled templates, for the image."""
    TEMPLATES.compile_templates(COMPILED, zip=None)


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
    posted: bool
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
        """Return the logged-in user. Raises NeedsLogin: no user is logged in."""
        user = self.user()
        if user is None:
            raise NeedsLogin
        return user

    def one(self, sql: str, *values: Any) -> Row:
        """Return the row that the page is about. Raises Refused: there is no such row."""
        row = self.db.row(sql, *values)
        if row is None:
            raise Refused("The page you requested does not exist.", 404)
        return row

    def find(self, table: str, /, **where: Any) -> Row:
        """Return the row of a table that the page is about. Raises Refused if there is no such row."""
        found = self.db.find(table, **where)
        return found[0] if found else self.one("SELECT 1 WHERE 0")

    def draft(self, name: str) -> dict[str, Any]:
        """Return the draft of an unfinished form, empty at first."""
        return self.session.drafts.setdefault(name, {})


class Page:
    """A page: its title, which is also its heading, the errors of its form, and its content.

    ``view`` is the file and the macro that render the content from ``values``, such as ``cart.cart``.
    """

    def __init__(self, title: str, view: str, errors: Iterable[str] = (), status: int = 200, /, **values: Any) -> None:
        self.title, self.view, self.errors, self.status, self.values = title, view, list(errors), status, values


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
Links = Mapping[str, str]
"""Paths by the text of their link."""


class Site:
    """An app: its handlers and, once opened, its data and sessions. Its schema and its templates have its name."""

    def __init__(self, name: str, title: str, menu: Links, member_menu: Links) -> None:
        self.name, self.title, self._menu, self._member_menu = name, title, menu, member_menu
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = []
        self._data: Data | None = None
        self.today = ""
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        self.form("/login")(_log_in)
        self.post("/logout")(_log_out)

    @property
    def data(self) -> Data:
        """The database. Raises RuntimeError: the app is not open yet."""
        if self._data is None:
            raise RuntimeError(f"the site {self.name} is not open")
        return self._data

    def get(self, pattern: str) -> Callable[[Handler], Handler]:
        """Return a decorator that registers the handler of a page; ``{}`` in the pattern matches a number."""
        return self._register(pattern, "GET")

    def post(self, pattern: str) -> Callable[[Handler], Handler]:
        """Return a decorator that registers the handler of a button."""
        return self._register(pattern, "POST")

    def form(self, pattern: str) -> Callable[[Handler], Handler]:
        """Return a decorator that registers the handler of a page with a form, and of that form."""
        return self._register(pattern, "GET", "POST")

    def _register(self, pattern: str, *methods: str) -> Callable[[Handler], Handler]:
        compiled = re.compile(pattern.replace("{}", "([0-9]{1,9})"), re.ASCII)

        def register(handler: Handler) -> Handler:
            self._routes += [(method, compiled, handler) for method in methods]
            return handler

        return register

    def open(self, path: str, world: Mapping[str, Any]) -> None:
        """Create the database at ``path`` from the world. Close the previous database and delete all sessions.

        Raises:
            sqlite3.Error: the world does not match the schema, or the file is not new.
        """
        with self._lock, open(os.path.join(FOLDER, "schemas", f"{self.name}.sql"), encoding="utf-8") as schema:
            if self._data:
                self._data.close()
            self._data, self.today = Data(path, schema.read()), world["today"]
            self.data.load(world["tables"])
            self._sessions.clear()

    def answer(self, method: str, target: str, body: str, cookies: str) -> tuple[int, dict[str, str], str]:
        """Return status, headers and body of the response. Raises BadRequest: the form has too many fields."""
        path, _, search = target.partition("?")
        posted = method == "POST"
        with self._lock:
            known = self._sessions.get(parse_cookies(cookies).get("session", ""))
            session = known or Session(len(self._sessions) + 1)
            self._sessions[str(session.number)] = session
            form = parse_form(body if posted else "")
            request = Request(self, posted, urllib.parse.unquote(path), parse_form(search), form, session)
            reply = self._reply(method, request)
            headers = {} if known else {"Set-Cookie": f"session={session.number}; Path=/; HttpOnly; SameSite=Strict"}
            if isinstance(reply, Redirect):
                session.flash = reply.flash
                return 303, {**headers, "Location": reply.to}, ""
            text = self._rendered(request, reply)
            session.flash = ""
            return reply.status, headers, text

    def _reply(self, method: str, request: Request) -> Reply:
        done = False
        try:
            reply = self._routed(method, request)
            done = not (isinstance(reply, Page) and reply.errors)
        except NeedsLogin:
            wanted = "/" if request.posted else request.path
            return Redirect("/login" + query({"next": wanted}), "Please log in to continue.")
        except Refused as refused:
            title = "Not found" if refused.status == 404 else "Not allowed"
            return Page(title, "common.message", (), refused.status, text=refused.args[0])
        finally:
            self.data.finish(commit=done and request.posted)
        return reply

    def _routed(self, method: str, request: Request) -> Reply:
        for verb, pattern, handler in self._routes:
            match = pattern.fullmatch(request.path)
            if match and verb == method:
                return handler(request, *(int(number) for number in match.groups()))
        raise Refused("The page you requested does not exist.", 404)

    def _rendered(self, request: Request, page: Page) -> str:
        file, _, macro = page.view.partition(".")
        folder = "" if file == "common" else f"{self.name}/"
        content = getattr(TEMPLATES.get_template(f"{folder}{file}.html").module, macro)(**page.values)
        user = request.user()
        menu = {**self._menu, **(self._member_menu if user else {})}
        return TEMPLATES.get_template("layout.html").render(
            site=self.title, menu=menu, user=user, page=page, flash=request.session.flash, content=content
        )


def _log_in(request: Request) -> Reply:
    wanted, login, errors = request.query.text("next", "/"), request.form.text("login"), []
    if request.posted:
        user = request.db.row("SELECT * FROM users WHERE login = ?", login)
        if user is not None and user["password"] == request.form.text("password"):
            request.session.user_id = user["id"]
            request.session.drafts.clear()
            local = wanted.startswith("/") and not wanted.startswith("//") and "\\" not in wanted
            return Redirect(urllib.parse.quote(wanted) if local else "/", f"Welcome, {user['name']}.")
        errors = ["The user name or password is incorrect."]
    return Page("Log in", "common.log_in", errors, wanted=wanted, login=login)


def _log_out(request: Request) -> Reply:
    request.session.user_id = None
    request.session.drafts.clear()
    return Redirect("/", "You have been logged out.")


@dataclass(frozen=True)
class Pages:
    """The page of a list that a request asks for. ``previous`` and ``next`` are paths, None at the ends."""

    page: int
    last: int
    count: int
    previous: str | None
    next: str | None

    @property
    def offset(self) -> int:
        """The number of items before the page."""
        return (self.page - 1) * PAGE_SIZE


def paged(request: Request, count: int) -> Pages:
    """Return the current page of a list of ``count`` items."""
    last = max(1, -(-count // PAGE_SIZE))
    page = min(max(1, request.query.number("page") or 1), last)
    others = {name: values[-1] for name, values in request.query.items() if name != "page"}
    previous, following = (
        request.path + query({**others, "page": number}) if 1 <= number <= last else None
        for number in (page - 1, page + 1)
    )
    return Pages(page, last, count, previous, following)


def listed(request: Request, sql: str, *values: Any) -> tuple[list[Row], Pages]:
    """Return the rows of a query that are on the current page of its list, and the page."""
    pages = paged(request, request.db.value(f"SELECT count(*) FROM ({sql})", *values))
    return request.db.rows(f"{sql} LIMIT {PAGE_SIZE} OFFSET ?", *values, pages.offset), pages


def confirm(question: str, yes: str, action: str, back: str, quoted: str | None = None) -> Page:
    """Return a page that asks for confirmation, below a quoted text if there is one."""
    return Page(question, "common.confirm", yes=yes, action=action, back=back, quoted=quoted)


class Filters:
    """The conditions of a search: every word of ``text`` in what is searched, and those of further fields."""

    def __init__(self, query: Form, searched: str) -> None:
        self._query, self._clauses = query, ["1"]
        self.values: list[Any] = []
        for word in query.text("text").lower().split():
            self.add(f"instr(lower({searched}), ?) > 0", word)

    @property
    def where(self) -> str:
        """The conditions in SQL."""
        return " AND ".join(self._clauses)

    def add(self, clause: str, *values: Any) -> None:
        """Add a condition."""
        self._clauses.append(clause)
        self.values += values

    def text(self, name: str, clause: str) -> None:
        """Add a condition on the text of a field that is not empty."""
        if value := self._query.text(name):
            self.add(clause, value)

    def number(self, name: str, clause: str) -> None:
        """Add a condition on a field that holds a number."""
        value = self._query.number(name)
        if value is not None:
            self.add(clause, value)

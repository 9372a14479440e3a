"""Articles: lists, search, talk, categories, history, the watch list; editing, and a new article in three steps.

Revisions are numbered from 1.
"""

import re
from typing import Any

from ..changes import publish as publish_article
from ..changes import revise
from ..data import Data, Row
from ..sites import WIKI as site
from ..web import Filters, Page, Redirect, Refused, Reply, Request, confirm, listed, paged

CURRENT = "SELECT max(id) FROM revisions GROUP BY article_id"
HEADING = re.compile(r"==\s*(.+?)\s*==")
LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")


def current(request: Request, article_id: int) -> Row:
    """Return the newest revision of an article, with its title. Raises Refused: there is no such article."""
    return request.one(
        "SELECT revisions.*, articles.title FROM revisions JOIN articles ON articles.id = article_id"
        " WHERE article_id = ? ORDER BY revisions.id DESC LIMIT 1",
        article_id,
    )


def sections(text: str) -> list[tuple[str, str]]:
    """Return heading and text of each section; the text includes the heading line, which the first may lack.

    A heading is a line such as ``== History ==``.
    """
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        heading = HEADING.fullmatch(line)
        if heading:
            found.append((heading.group(1), []))
        found[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in found if lines]


def parsed(db: Data, text: str) -> list[tuple[str, list[list[Any]]]]:
    """Return heading and lines of each section; a line consists of texts and of articles, for ``[[Aldbury]]``."""

    def piece(number: int, text: str) -> Any:
        # With one group in the pattern, the odd pieces of a split are the group's matches.
        return (number % 2 and db.row("SELECT * FROM articles WHERE title = ?", text)) or text

    return [
        (
            heading,
            [[piece(*each) for each in enumerate(LINK.split(line))] for line in body.split("\n")[bool(heading) :]],
        )
        for heading, body in sections(text)
    ]


@site.get("/")
def home(request: Request) -> Page:
    """Display the categories and the recent changes."""
    categories = request.db.rows(
        "SELECT categories.*, count(article_id) AS articles FROM categories LEFT JOIN article_categories"
        " ON category_id = categories.id GROUP BY categories.id ORDER BY name"
    )
    changes = request.db.rows(
        "SELECT articles.*, users.name, date, summary FROM revisions JOIN articles ON articles.id = article_id"
        f" JOIN users ON users.id = user_id WHERE revisions.id IN ({CURRENT}) ORDER BY revisions.id DESC LIMIT 5"
    )
    return Page("Open Wiki", "articles.home", categories=categories, changes=changes)


@site.get("/articles")
def articles(request: Request) -> Page:
    """Display all articles."""
    rows, pages = listed(request, "SELECT * FROM articles ORDER BY title")
    return Page("Articles", "articles.list", articles=rows, pages=pages)


@site.get("/category/{}")
def category(request: Request, category_id: int) -> Page:
    """Display the articles of a category."""
    row = request.find("categories", id=category_id)
    rows, pages = listed(
        request,
        "SELECT articles.* FROM article_categories JOIN articles ON articles.id = article_id WHERE category_id = ?"
        " ORDER BY title",
        category_id,
    )
    return Page(f"Category {row['name']}", "articles.list", articles=rows, pages=pages)


@site.get("/search")
def search(request: Request) -> Page:
    """Display the articles that contain every word, in the title or the text."""
    where = request.query.text("where", "all")
    filters = Filters(request.query, "title" if where == "title" else "title || ' ' || text")
    filters.add(f"revisions.id IN ({CURRENT})")
    found = f"FROM revisions JOIN articles ON articles.id = article_id WHERE {filters.where}"
    rows, pages = listed(request, f"SELECT articles.* {found} ORDER BY title", *filters.values)
    return Page("Search", "articles.search", text=request.query.text("text"), where=where, articles=rows, pages=pages)


@site.get("/article/{}")
def article(request: Request, article_id: int) -> Page:
    """Display an article."""
    row, user = current(request, article_id), request.user()
    categories = request.db.rows(
        "SELECT categories.* FROM article_categories JOIN categories ON categories.id = category_id"
        " WHERE article_id = ? ORDER BY name",
        article_id,
    )
    return Page(
        row["title"],
        "articles.article",
        path=request.path,
        user=user,
        watched=user and request.db.find("watches", user_id=user["id"], article_id=article_id),
        sections=parsed(request.db, row["text"]),
        categories=categories,
    )


@site.post("/article/{}/watch")
def watch(request: Request, article_id: int) -> Reply:
    """Watch an article."""
    user, row = request.member(), current(request, article_id)
    request.db.link("watches", user_id=user["id"], article_id=article_id)
    return Redirect(f"/article/{article_id}", f"{row['title']} has been added to your watch list.")


@site.post("/article/{}/unwatch")
def unwatch(request: Request, article_id: int) -> Reply:
    """Stop watching an article."""
    user, row = request.member(), current(request, article_id)
    request.db.remove("watches", user_id=user["id"], article_id=article_id)
    return Redirect(f"/article/{article_id}", f"{row['title']} has been removed from your watch list.")


@site.get("/watches")
def watches(request: Request) -> Page:
    """Display the watch list."""
    rows = request.db.rows(
        "SELECT articles.* FROM watches JOIN articles ON articles.id = article_id WHERE user_id = ? ORDER BY title",
        request.member()["id"],
    )
    return Page("Watch list", "articles.watches", articles=rows)


@site.form("/article/{}/categories")
def choose_categories(request: Request, article_id: int) -> Reply:
    """Display a checkbox for each category, and save the categories."""
    request.member()
    title = current(request, article_id)["title"]
    rows = request.db.rows(
        "SELECT categories.*, id IN (SELECT category_id FROM article_categories WHERE article_id = ?) AS ticked"
        " FROM categories ORDER BY name",
        article_id,
    )
    if not request.posted:
        return Page(f"Categories of {title}", "articles.categories", path=request.path, categories=rows)
    request.db.remove("article_categories", article_id=article_id)
    for number in request.form.numbers("category"):
        if number in [row["id"] for row in rows]:
            request.db.add("article_categories", article_id=article_id, category_id=number)
    return Redirect(f"/article/{article_id}", "The categories have been saved.")


@site.form("/article/{}/talk")
def talk(request: Request, article_id: int) -> Reply:
    """Display the talk page of an article, and add a remark."""
    text, errors = request.form.text("text"), []
    if request.posted:
        user = request.member()
        current(request, article_id)
        if text:
            request.db.add("talk", article_id=article_id, user_id=user["id"], date=request.today, text=text)
            return Redirect(request.path, "Your remark has been added.")
        errors = ["The remark must not be empty."]
    title = current(request, article_id)["title"]
    rows = request.db.rows(
        "SELECT talk.*, users.name FROM talk JOIN users ON users.id = user_id WHERE article_id = ? ORDER BY talk.id",
        article_id,
    )
    return Page(f"Talk about {title}", "articles.talk", errors, article_id=article_id, remarks=rows)


def _revisions(request: Request, article_id: int) -> list[Row]:
    return request.db.rows(
        "SELECT revisions.*, users.name FROM revisions JOIN users ON users.id = user_id WHERE article_id = ?"
        " ORDER BY revisions.id",
        article_id,
    )


@site.get("/article/{}/history")
def history(request: Request, article_id: int) -> Page:
    """Display all revisions, newest first."""
    title, rows = current(request, article_id)["title"], _revisions(request, article_id)
    pages = paged(request, len(rows))
    shown = list(enumerate(rows, 1))[::-1][pages.offset : pages.offset + 10]
    values = {"article_id": article_id, "revisions": shown, "count": len(rows), "pages": pages}
    return Page(f"History of {title}", "articles.history", **values)


def _revision(request: Request, article_id: int, number: int) -> Row:
    rows = _revisions(request, article_id)
    if not 1 <= number <= len(rows):
        raise Refused("This revision does not exist.", 404)
    return rows[number - 1]


@site.get("/article/{}/revision/{}")
def revision(request: Request, article_id: int, number: int) -> Page:
    """Display a revision."""
    title, row = current(request, article_id)["title"], _revision(request, article_id, number)
    content = parsed(request.db, row["text"])
    title = f"{title}, revision {number}"
    return Page(title, "articles.revision", article_id=article_id, revision=row, sections=content)


@site.form("/article/{}/revision/{}/revert")
def revert(request: Request, article_id: int, number: int) -> Reply:
    """Add a revision with the text of an old one, after a confirmation."""
    user, row = request.member(), _revision(request, article_id, number)
    if not request.posted:
        back = f"/article/{article_id}/history"
        return confirm(f"Revert to revision {number}?", "Revert article", request.path, back)
    summary = f"Reverted to revision {number}"
    revise(request.db, request.today, user["id"], article_id, summary, row["text"])
    return Redirect(f"/article/{article_id}", f"{summary}.")


NO_TITLE, TAKEN = "The title must not be empty.", "An article with this title already exists."


def normalize(text: str) -> str:
    """Return text as it is stored: no empty lines, and no white space at the ends of lines."""
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


@site.form("/article/{}/edit")
def edit(request: Request, article_id: int) -> Reply:
    """Display the edit form of an article, and save it."""
    request.member()
    row = current(request, article_id)
    return _form(request, article_id, f"Edit {row['title']}", "", row["text"], "")


@site.form("/article/{}/section/{}")
def edit_section(request: Request, article_id: int, number: int) -> Reply:
    """Display the edit form of a section, and save it."""
    request.member()
    found = sections(current(request, article_id)["text"])
    if number >= len(found):
        raise Refused("This section does not exist.", 404)
    texts = [text for _, text in found]
    before, after = "\n".join(texts[:number]), "\n".join(texts[number + 1 :])
    return _form(request, article_id, f"Edit section {found[number][0]}", before, texts[number], after)


def _form(request: Request, article_id: int, title: str, before: str, text: str, after: str) -> Reply:
    """Display the form of a part of an article, or save what replaces the part."""
    summary, errors = "", []
    if request.posted:
        text, summary = request.form.text("text"), request.form.text("summary")
        new = normalize("\n".join((before, text, after)))
        errors = [] if new else ["The text must not be empty."]
        if not summary:
            errors.append("Describe the change in the summary.")
        if new == current(request, article_id)["text"]:
            errors.append("The text has not changed.")
        if not errors:
            revise(request.db, request.today, request.member()["id"], article_id, summary, new)
            return Redirect(f"/article/{article_id}", "Your change has been saved.")
    return Page(title, "articles.edit", errors, path=request.path, text=text, summary=summary)


@site.form("/article/{}/rename")
def rename(request: Request, article_id: int) -> Reply:
    """Rename an article."""
    request.member()
    title, errors = current(request, article_id)["title"], []
    if request.posted:
        title = request.form.text("title")
        if title and not request.db.find("articles", title=title):
            request.db.edit("articles", {"id": article_id}, title=title)
            return Redirect(f"/article/{article_id}", f"The article has been renamed to {title}.")
        errors = [TAKEN if title else NO_TITLE]
    return Page("Rename", "articles.rename", errors, path=request.path, title=title)


@site.form("/new")
def choose_title(request: Request) -> Reply:
    """Step 1: choose a title and a category."""
    request.member()
    draft, errors = request.draft("article"), []
    title, category = draft.get("title", ""), draft.get("category")
    if request.posted:
        title, category = request.form.text("title"), request.form.number("category")
        if title and not request.db.find("articles", title=title):
            draft.update(title=title, category=category if request.db.find("categories", id=category) else None)
            return Redirect("/new/text")
        errors = [TAKEN if title else NO_TITLE]
    rows = request.db.rows("SELECT id, name FROM categories ORDER BY name")
    values = {"title": title, "category": category, "categories": rows}
    return Page("New article, step 1 of 3: title", "articles.new_title", errors, **values)


@site.form("/new/text")
def write_text(request: Request) -> Reply:
    """Step 2: write the text."""
    request.member()
    draft, errors = request.draft("article"), []
    if request.posted:
        text = normalize(request.form.text("text"))
        if text:
            draft["text"] = text
            return Redirect("/new/preview")
        errors = ["The text must not be empty."]
    elif "title" not in draft:
        return Redirect("/new")
    text = "" if request.posted else draft.get("text", "")
    return Page("New article, step 2 of 3: text", "articles.new_text", errors, text=text)


@site.get("/new/preview")
def preview(request: Request) -> Reply:
    """Step 3: display the article."""
    request.member()
    draft = request.draft("article")
    if "title" not in draft or "text" not in draft:
        return Redirect("/new")
    category = request.db.value("SELECT name FROM categories WHERE id = ?", draft["category"]) or "none"
    content = parsed(request.db, draft["text"])
    values = {"title": draft["title"], "category": category, "sections": content}
    return Page("New article, step 3 of 3: preview", "articles.preview", **values)


@site.post("/new/publish")
def publish(request: Request) -> Reply:
    """Create the article."""
    user, draft = request.member(), request.session.drafts.pop("article", {})
    if "title" not in draft or "text" not in draft:
        return Redirect("/new")
    title = draft["title"]
    if request.db.find("articles", title=title):
        return Redirect("/new", TAKEN)
    number = publish_article(request.db, request.today, user["id"], title, draft["text"], draft["category"])
    return Redirect(f"/article/{number}", f"The article {title} has been published.")

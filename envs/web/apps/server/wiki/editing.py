"""Edit an article or one of its sections; rename an article; create one in three steps: title, text, preview."""

from ..changes import publish as publish_article
from ..changes import revise
from ..sites import WIKI as site
from ..web import Page, Redirect, Refused, Reply, Request
from .articles import current, parsed, sections

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

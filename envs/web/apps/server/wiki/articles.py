"""Home, the list of articles, search, articles, and the watch list."""

from ..data import Row
from ..html import bullets, button, count_of, field, form, join, link, press, select, table, tag
from ..web import Page, Redirect, Reply, Request, paged
from .base import article_link, site
from .text import contents, render

CURRENT = "SELECT max(id) FROM revisions GROUP BY article_id"


def current(request: Request, article_id: int) -> Row:
    """Return the newest revision of an article, with its title.

    Raises:
        Refused: there is no such article.
    """
    return request.one(
        "SELECT revisions.*, articles.title FROM revisions JOIN articles ON articles.id = article_id"
        " WHERE article_id = ? ORDER BY revisions.id DESC LIMIT 1",
        article_id,
    )


@site.get("/")
def home(request: Request) -> Page:
    """Display the categories and the recent changes."""
    rows = request.db.rows(
        "SELECT categories.*, count(article_id) AS articles FROM categories LEFT JOIN article_categories"
        " ON category_id = categories.id GROUP BY categories.id ORDER BY name"
    )
    changes = request.db.rows(
        "SELECT articles.*, users.name, date, summary FROM revisions JOIN articles ON articles.id = article_id"
        f" JOIN users ON users.id = user_id WHERE revisions.id IN ({CURRENT}) ORDER BY revisions.id DESC LIMIT 5"
    )
    cells = [(article_link(row), row["name"], row["date"], row["summary"]) for row in changes]
    body = join(
        form("/search", field("Search for", "text", kind="search"), button("Go"), method="get"),
        tag("p", link("New article", "/new")),
        tag("h2", "Categories"),
        bullets(
            [
                join(link(row["name"], f"/category/{row['id']}"), f" ({count_of(row['articles'], 'article')})")
                for row in rows
            ]
        ),
        tag("h2", "Recent changes"),
        table("Recent changes", ("Article", "Author", "Date", "Summary"), cells),
    )
    return Page("Open Wiki", body)


@site.get("/articles")
def articles(request: Request) -> Page:
    """Display all articles."""
    skip, pages = paged(request, request.db.value("SELECT count(*) FROM articles"))
    rows = request.db.rows("SELECT * FROM articles ORDER BY title LIMIT 10 OFFSET ?", skip)
    return Page("Articles", join(bullets([article_link(row) for row in rows]), pages))


@site.get("/category/{}")
def category(request: Request, category_id: int) -> Page:
    """Display the articles of a category."""
    row = request.one("SELECT * FROM categories WHERE id = ?", category_id)
    count = request.db.value("SELECT count(*) FROM article_categories WHERE category_id = ?", category_id)
    skip, pages = paged(request, count)
    rows = request.db.rows(
        "SELECT articles.* FROM article_categories JOIN articles ON articles.id = article_id WHERE category_id = ?"
        " ORDER BY title LIMIT 10 OFFSET ?",
        category_id,
        skip,
    )
    return Page(f"Category {row['name']}", join(bullets([article_link(each) for each in rows]), pages))


@site.get("/search")
def search(request: Request) -> Page:
    """Display the articles that contain every word, in the title or the text."""
    words, where = request.query.text("text").lower().split(), request.query.text("where", "all")
    searched = "lower(title)" if where == "title" else "lower(title || ' ' || text)"
    clause = " AND ".join([f"revisions.id IN ({CURRENT})", *(f"instr({searched}, ?) > 0" for _ in words)])
    found = f"FROM revisions JOIN articles ON articles.id = article_id WHERE {clause}"
    count = request.db.value(f"SELECT count(*) {found}", *words)
    skip, pages = paged(request, count)
    rows = request.db.rows(f"SELECT articles.* {found} ORDER BY title LIMIT 10 OFFSET ?", *words, skip)
    controls = form(
        "/search",
        field("Search for", "text", request.query.text("text"), "search"),
        select("Where", "where", [("all", "Title and text"), ("title", "Title only")], where),
        button("Search articles"),
        method="get",
    )
    return Page("Search", join(controls, tag("h2", "Results"), bullets([article_link(row) for row in rows]), pages))


@site.get("/article/{}")
def article(request: Request, article_id: int) -> Page:
    """Display an article."""
    row, user = current(request, article_id), request.user()
    groups = request.db.rows(
        "SELECT categories.* FROM article_categories JOIN categories ON categories.id = category_id"
        " WHERE article_id = ? ORDER BY name",
        article_id,
    )
    path = f"/article/{article_id}"
    actions = (("Edit article", "edit"), ("History", "history"), ("Talk", "talk"), ("Rename", "rename"))
    links = [[link(text, f"{path}/{to}"), " "] for text, to in (*actions, ("Change categories", "categories"))]
    watched = user and request.db.row(
        "SELECT 1 FROM watches WHERE user_id = ? AND article_id = ?", user["id"], article_id
    )
    watch = press("Unwatch", f"{path}/unwatch") if watched else press("Watch", f"{path}/watch")
    body = join(
        tag("p", links),
        watch if user else None,
        contents(row["text"]),
        render(request.db, row["text"], article_id),
        tag("h2", "Categories"),
        bullets([link(each["name"], f"/category/{each['id']}") for each in groups])
        if groups
        else tag("p", "No categories."),
    )
    return Page(row["title"], body)


@site.post("/article/{}/watch")
def watch(request: Request, article_id: int) -> Reply:
    """Watch an article."""
    user, row = request.member(), current(request, article_id)
    request.db.run("INSERT OR IGNORE INTO watches VALUES (?, ?)", user["id"], article_id)
    return Redirect(f"/article/{article_id}", f"{row['title']} has been added to your watch list.")


@site.post("/article/{}/unwatch")
def unwatch(request: Request, article_id: int) -> Reply:
    """Stop watching an article."""
    user, row = request.member(), current(request, article_id)
    request.db.run("DELETE FROM watches WHERE user_id = ? AND article_id = ?", user["id"], article_id)
    return Redirect(f"/article/{article_id}", f"{row['title']} has been removed from your watch list.")


@site.get("/watches")
def watches(request: Request) -> Page:
    """Display the watch list."""
    rows = request.db.rows(
        "SELECT articles.* FROM watches JOIN articles ON articles.id = article_id WHERE user_id = ? ORDER BY title",
        request.member()["id"],
    )
    return Page(
        "Watch list", bullets([article_link(row) for row in rows]) if rows else tag("p", "Your watch list is empty.")
    )

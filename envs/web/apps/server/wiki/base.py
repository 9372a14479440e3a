"""Shared parts of the wiki's pages: the schema and the menu."""

from ..data import Row
from ..html import Html, link
from ..web import Request, Site

SCHEMA = """
CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT, login TEXT NOT NULL UNIQUE, password TEXT NOT NULL, name TEXT NOT NULL,
    email TEXT NOT NULL, role TEXT NOT NULL, about TEXT NOT NULL, show_email INTEGER NOT NULL, notify TEXT NOT NULL);
CREATE TABLE categories (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE);
CREATE TABLE articles (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL UNIQUE);
CREATE TABLE article_categories (
    article_id INTEGER NOT NULL REFERENCES articles (id), category_id INTEGER NOT NULL REFERENCES categories (id),
    PRIMARY KEY (article_id, category_id));
CREATE TABLE revisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, article_id INTEGER NOT NULL REFERENCES articles (id),
    user_id INTEGER NOT NULL REFERENCES users (id), date TEXT NOT NULL, summary TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE talk (
    id INTEGER PRIMARY KEY AUTOINCREMENT, article_id INTEGER NOT NULL REFERENCES articles (id),
    user_id INTEGER NOT NULL REFERENCES users (id), date TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE watches (
    user_id INTEGER NOT NULL REFERENCES users (id), article_id INTEGER NOT NULL REFERENCES articles (id),
    PRIMARY KEY (user_id, article_id));
CREATE TABLE boards (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL);
CREATE TABLE threads (
    id INTEGER PRIMARY KEY AUTOINCREMENT, board_id INTEGER NOT NULL REFERENCES boards (id), title TEXT NOT NULL,
    pinned INTEGER NOT NULL, locked INTEGER NOT NULL);
CREATE TABLE posts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id INTEGER NOT NULL REFERENCES threads (id),
    user_id INTEGER NOT NULL REFERENCES users (id), date TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE reports (
    id INTEGER PRIMARY KEY AUTOINCREMENT, post_id INTEGER NOT NULL REFERENCES posts (id),
    user_id INTEGER NOT NULL REFERENCES users (id), reason TEXT NOT NULL, note TEXT NOT NULL);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sender_id INTEGER NOT NULL REFERENCES users (id),
    receiver_id INTEGER NOT NULL REFERENCES users (id), subject TEXT NOT NULL, text TEXT NOT NULL, date TEXT NOT NULL);
"""


def _menu(request: Request) -> list[Html]:
    always = [link("Articles", "/articles"), link("Search", "/search"), link("Forum", "/forum")]
    mine = [link("Messages", "/messages"), link("Watch list", "/watches"), link("Profile", "/profile")]
    return always + (mine if request.user() else [])


site = Site("wiki", "Open Wiki", SCHEMA, _menu)


def article_link(row: Row) -> Html:
    """Return the link to an article."""
    return link(row["title"], f"/article/{row['id']}")


def is_moderator(user: Row | None) -> bool:
    """Return whether this user is a moderator of the forum."""
    return user is not None and user["role"] == "moderator"

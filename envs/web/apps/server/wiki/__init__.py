"""The wiki with a forum: articles with history, talk and categories; boards, threads, reports and messages."""

from ..sites import WIKI as site
from . import articles, editing, forum, people, posts

__all__ = ["articles", "editing", "forum", "people", "posts", "site"]

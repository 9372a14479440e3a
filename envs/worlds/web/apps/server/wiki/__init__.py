"""The wiki with a forum: articles with history, talk and categories; boards, threads, reports and messages."""

from ..sites import WIKI as site
from . import articles, forum, people

__all__ = ["articles", "forum", "people", "site"]

"""The wiki with a forum: articles with history, talk and categories; boards, threads, reports and messages."""

from . import articles, categories, drafting, editing, forum, history, messages, moderation, people, posts
from .base import site

__all__ = ["articles", "categories", "drafting", "editing", "forum", "history", "messages", "moderation", "people"]
__all__ += ["posts", "site"]

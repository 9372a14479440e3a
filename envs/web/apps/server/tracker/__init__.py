"""The issue tracker: projects, issues with labels and milestones, comments, and bulk changes."""

from . import bulk, comments, editing, issues, milestones, moving, projects, settings
from .base import site

__all__ = ["bulk", "comments", "editing", "issues", "milestones", "moving", "projects", "settings", "site"]

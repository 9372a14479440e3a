"""The issue tracker: projects, issues with labels and milestones, comments, and bulk changes."""

from ..sites import TRACKER as site
from . import editing, issues, milestones, moving, projects

__all__ = ["editing", "issues", "milestones", "moving", "projects", "site"]

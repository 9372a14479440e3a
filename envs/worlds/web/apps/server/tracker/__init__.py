"""The issue tracker: projects, issues with labels and milestones, comments, and bulk changes."""

from ..sites import TRACKER as site
from . import issues, projects

__all__ = ["issues", "projects", "site"]

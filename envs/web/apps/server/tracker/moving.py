"""Move an issue to another project in three steps; mark an issue as a duplicate of another one."""

from ..choices import issue_name
from ..sites import TRACKER as site
from ..web import Page, Redirect, Reply, Request


@site.form("/issues/{}/move")
def choose_project(request: Request, issue_id: int) -> Reply:
    """Step 1: choose a project."""
    request.member()
    row, draft, errors = request.find("issues", id=issue_id), request.draft(f"move {issue_id}"), []
    rows = request.db.rows("SELECT id, name FROM projects WHERE id != ? ORDER BY name", row["project_id"])
    if request.posted:
        project = request.form.number("project")
        if project in [each["id"] for each in rows]:
            draft.clear()
            draft["project"] = project
            return Redirect(f"/issues/{issue_id}/move/milestone")
        errors = ["Choose a project."]
    title = f"Move issue #{issue_id}, step 1 of 3: project"
    return Page(title, "projects.choose_project", errors, path=request.path, projects=rows, draft=draft)


@site.form("/issues/{}/move/milestone")
def choose_milestone(request: Request, issue_id: int) -> Reply:
    """Step 2: choose a milestone."""
    request.member()
    request.find("issues", id=issue_id)
    draft = request.draft(f"move {issue_id}")
    if "project" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    rows = request.db.rows("SELECT id, title FROM milestones WHERE project_id = ? ORDER BY due, id", draft["project"])
    if request.posted:
        number = request.form.number("milestone")
        draft["milestone"] = number if number in [row["id"] for row in rows] else None
        return Redirect(f"/issues/{issue_id}/move/confirm")
    title = f"Move issue #{issue_id}, step 2 of 3: milestone"
    return Page(title, "projects.choose_milestone", path=request.path, milestones=rows, draft=draft)


@site.form("/issues/{}/move/confirm")
def move(request: Request, issue_id: int) -> Reply:
    """Step 3: move the issue."""
    request.member()
    row, draft = request.find("issues", id=issue_id), request.draft(f"move {issue_id}")
    if not request.posted:
        if "milestone" not in draft:
            return Redirect(f"/issues/{issue_id}/move/milestone")
        project = request.db.value("SELECT name FROM projects WHERE id = ?", draft["project"])
        milestone = request.db.value("SELECT title FROM milestones WHERE id = ?", draft["milestone"])
        facts = {"Issue": issue_name(row), "New project": project, "Milestone": milestone or "none"}
        title = f"Move issue #{issue_id}, step 3 of 3: confirm"
        return Page(title, "common.review", path=request.path, facts=facts, yes="Move issue")
    del request.session.drafts[f"move {issue_id}"]
    if "milestone" not in draft:
        return Redirect(f"/issues/{issue_id}/move")
    request.db.edit("issues", {"id": issue_id}, project_id=draft["project"], milestone_id=draft["milestone"])
    return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} has been moved.")


@site.form("/issues/{}/duplicate")
def duplicate(request: Request, issue_id: int) -> Reply:
    """Close the issue as a duplicate of another one."""
    request.member()
    row, text, errors = request.find("issues", id=issue_id), request.form.text("original").removeprefix("#"), []
    if request.posted:
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        original = request.db.row("SELECT * FROM issues WHERE id = ?", number)
        if original is not None and number != issue_id and original["duplicate_of"] != issue_id:
            request.db.edit("issues", {"id": issue_id}, duplicate_of=number, state="closed")
            return Redirect(f"/issues/{issue_id}", f"Issue #{issue_id} is now a duplicate of #{number}.")
        errors = ["Enter the number of another issue."]
    title = f"Mark {issue_name(row)} as duplicate"
    return Page(title, "projects.duplicate", errors, path=request.path, number=text)

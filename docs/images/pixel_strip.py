"""Draw what a policy saw and did, from the held-out tasks that a run's evaluations played.

python docs/images/pixel_strip.py STORE_URL TARGET.png TASKS

The upper row has the first ``TASKS`` tasks after the format warm-up, the lower one the same tasks after the training. A
panel is a turn: the screenshot as the policy saw it, enlarged if it is small, with its click, and the reward below.
"""

import io
import sys
from contextlib import closing
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from sqlalchemy import select
from turnwise.records import Purpose, Trajectory
from turnwise.store.database import Database, open_database
from turnwise.store.queries.load import load_trajectories
from turnwise.store.schema import rollout_group, trajectory

SIDE_PX, GAP, CAPTION, RADIUS = 224, 10, 44, 7
GROUND, INK, RIGHT, OTHER = "white", "#1d2b3a", "#1f5fbf", "#c2570c"
WARMED_UP, TRAINED = 1, -1
"""Places among the evaluations of a run, of which the first is that of the untrained policy."""


def evaluations(database: Database, tasks: int) -> list[list[Trajectory]]:
    """Return the first episodes of the evaluation after the warm-up, and those of the same tasks at the end."""
    columns = select(trajectory.c.id, rollout_group.c.task_no, trajectory.c.no)
    with database.read() as conn:
        played = conn.execute(
            columns.join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
            .where(trajectory.c.purpose == Purpose.EVAL.value)
            .order_by(rollout_group.c.task_no, trajectory.c.no)
        ).all()
    by_task: dict[int, list[str]] = {}
    for one in played:
        by_task.setdefault(one.task_no, []).append(one.id)
    chosen = list(by_task.values())[:tasks]
    return [load_trajectories(database, [ids[at] for ids in chosen], texts=True) for at in (WARMED_UP, TRAINED)]


def panel(picture: bytes, goal: str, action: str, reward: float) -> Image.Image:
    """Return one turn."""
    seen = Image.open(io.BytesIO(picture)).convert("RGB")
    scale = max(1, SIDE_PX // seen.width)
    screen = seen.resize((scale * seen.width, scale * seen.height), Image.Resampling.NEAREST)
    whole = Image.new("RGB", (screen.width + 2 * GAP, screen.height + 2 * GAP + CAPTION), GROUND)
    whole.paste(screen, (GAP, GAP))
    pen, color = ImageDraw.Draw(whole), RIGHT if reward > 0 else OTHER
    pen.rectangle((GAP - 1, GAP - 1, GAP + screen.width, GAP + screen.height), outline=INK)
    words = action.split()
    if words[:1] == ["click"] and len(words) == 3:
        x, y = (GAP + scale * int(word) for word in words[1:])
        pen.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), fill=GROUND, outline=color, width=4)
    for row, text in enumerate((goal, f"{action}: {reward:+g}" if reward else action)):
        pen.text((GAP, 2 * GAP + screen.height + 20 * row), text, (INK, color)[row], ImageFont.load_default(15))
    return whole


def main(url: str, target: str, tasks: str) -> None:
    """Draw the strip."""
    with closing(open_database(url)) as database:
        rows = []
        for episodes in evaluations(database, int(tasks)):
            names = {image for episode in episodes for step in episode.steps for image in step.images}
            with database.read() as conn:
                pictures = database.blobs.get_unchecked(conn, names)
            turns = [step for episode in episodes for step in episode.steps]
            rows.append([panel(pictures[one.images[0]], one.observation, one.action, one.reward) for one in turns])
    width, height = rows[0][0].size
    whole = Image.new("RGB", (width * max(map(len, rows)), height * len(rows)), GROUND)
    for y, row in enumerate(rows):
        for x, one in enumerate(row):
            whole.paste(one, (x * width, y * height))
    whole.save(Path(target), optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

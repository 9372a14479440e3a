"""Measure what screenshots cost: a policy that reads them against one of text with the same decoder, in a browser.

Each of two runs trains a new model for a few updates in Chromium, with the same horizon: ``turnwise/TinyPixelsWeb-v0``
(a screenshot of 112 x 112 pixels) and ``turnwise/TinyWeb-v0`` (the elements of a page of 160 x 210 pixels, in words).
The two differ in their pages and in their text too, so a ratio is that of two worlds, not of a picture alone. The
vision tower comes on top of the decoder (``parameters``). Of the updates after the first two:

* ``turns_per_s``, ``tokens_per_s``: trained turns of whole runs per second, and trained tokens of the learner per
  second of its own work; ``vision_over_text`` divides them.

Of the whole run:

* ``row_bytes_per_turn``: bytes of the tables per turn, without the content of pictures and an empty store.
* ``png_bytes``: bytes of one screenshot, as a mean over turns. ``blob_bytes_per_turn``: bytes of stored pictures per
  turn; a picture is stored once, however many turns show it (``distinct_pictures``). Neither run keeps pictures that
  its policy did not read.
* ``peak_over_plan``: peak memory of the process with the learner over what ``turnwise plan`` says of it. The plan
  counts every picture as another one; this world has few, and a learner computes one once, so the peak is lower by up
  to ``repeated_over_plan``. ``benchmarks/learner.py plan`` measures a learner with different pictures, at three sizes.

A third part plays ``sessions`` of several turns, each with a new picture and a window of four, through the client and
an engine:

* ``images_sent_per_turn``, ``images_shown_per_turn``: images that arrive at the engine, and that its prompts show.

Prints one JSON line last.
"""

import argparse
import asyncio
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture
from sqlalchemy import func, select
from turnwise.agents.engine.actor import start_engine
from turnwise.agents.engine.client import PolicyClient
from turnwise.agents.engine.config import EngineConfig
from turnwise.agents.engine.request import Sampling
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderer import Image
from turnwise.agents.tokens.renderers import load_renderer
from turnwise.store.content.blobs import PNG
from turnwise.store.database import Database, open_database
from turnwise.store.maintenance.sizes import measure
from turnwise.store.schema import blob, step, step_image
from turnwise.trainer.cluster.runtime import start_ray, stop_ray

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PROGRAM = str(Path(sys.executable).with_name("turnwise"))
SKIPPED = 2
SAME = ("horizon.max_turns=2", "horizon.max_context=256", "rollout.screenshots=none")
WINDOW, SIDE_PX, TOKENS = 4, 112, 4


def run(name: str, updates: int) -> dict[str, float]:
    """Train an example for a few updates; return its figures."""
    settings = (*SAME, f"max_steps={updates}", "max_seconds=600", "evaluation.tasks=0", "sft_warmup.steps=100")
    changes = [word for one in settings for word in ("--set", one)]
    with tempfile.TemporaryDirectory() as folder:
        url, config = f"sqlite:///{folder}/turnwise.db", str(EXAMPLES / f"{name}.toml")
        with (Path(folder) / "out").open("w+") as out:
            started = subprocess.Popen([PROGRAM, "train", config, "--json", "--store", url, *changes], stdout=out)
            _, status, used = os.wait4(started.pid, 0)
            out.seek(0)
            result = json.loads(out.readlines()[-1])
        if status:
            raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}: {result}")
        records = map(json.loads, (Path(result["folder"]) / "metrics.jsonl").read_text().splitlines())
        done = [one for one in records if one["kind"] == "update"][SKIPPED:]
        plan = json.loads(subprocess.check_output([PROGRAM, "plan", config, "--json", *changes], text=True))
        driver = plan["processes"][0]
        database = open_database(url, read_only=True)
        stored = stored_bytes(database, empty_bytes(f"sqlite:///{folder}/empty.db"))
        database.close()
    learner_s = [one["update_s"] for one in done]
    return {
        "parameters": plan["model"]["parameters"],
        "turns_per_s": statistics.median(one["turns_per_s"] for one in done),
        "tokens_per_s": sum(one["tokens"] for one in done) / sum(learner_s),
        **stored,
        "peak_over_plan": used.ru_maxrss * 1024 / driver["bytes"],
        "repeated_over_plan": sum(driver["parts"].get(name, 0) for name in ("images", "kept images")) / driver["bytes"],
    }


def stored_bytes(database: Database, empty: int) -> dict[str, float]:
    """Return the bytes per turn of a store that has one run; ``empty`` are those of a new store."""
    with database.read() as conn:
        turns = conn.execute(select(func.count()).select_from(step)).scalar_one()
        pictures, content = conn.execute(
            select(func.count(), func.coalesce(func.sum(blob.c.size), 0)).where(blob.c.media_type == PNG)
        ).one()
        shown = select(func.avg(blob.c.size)).join(step_image, step_image.c.blob_hash == blob.c.hash)
        png = conn.execute(shown).scalar_one() or 0
    return {
        "row_bytes_per_turn": (measure(database).used - content - empty) / turns,
        "blob_bytes_per_turn": content / turns,
        "distinct_pictures": pictures,
        "png_bytes": float(png),
    }


def empty_bytes(url: str) -> int:
    """Return the bytes of a new store."""
    subprocess.run([PROGRAM, "db", "upgrade", "--store", url], check=True, capture_output=True)
    database = open_database(url, read_only=True)
    size = measure(database).used
    database.close()
    return size


def noise(seed: int) -> bytes:
    """Return a picture that no other seed has."""
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 255, (SIDE_PX, SIDE_PX, 3), dtype=np.uint8)
    Picture.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


async def play(engine: Any, model: Path, sessions: int, turns: int) -> dict[str, float]:
    """Play turns with a picture each; return the images per turn."""
    renderer, client = load_renderer(model), PolicyClient([engine], Sampling(stop=()))
    await engine.use_loaded_weights.remote(0)

    async def session(number: int) -> None:
        conversation, contents = Conversation(renderer, "", WINDOW), dict[str, bytes]()
        for turn in range(turns):
            picture = noise(turns * number + turn)
            image = Image.of(picture)
            contents[image.blob] = picture
            conversation.observe("w1", [image])
            prompt, spans = conversation.prompt(), conversation.images()
            answer = await client.generate(f"s{number}", prompt, TOKENS, 60, None, spans, contents)
            conversation.act(answer.tokens, answer.logprobs, answer.versions)

    await asyncio.gather(*map(session, range(sessions)))
    await client.close()
    info = await engine.info.remote()
    played = sessions * turns
    return {name: info[f"{key}_images"] / played for name, key in (("sent", "received"), ("shown", "shown"))}


def images_per_turn(sessions: int, turns: int) -> dict[str, float]:
    """Return the images that arrive at an engine and that its prompts show, per turn."""
    start_ray()
    with tempfile.TemporaryDirectory() as folder:
        model = new_vision_model(Path(folder) / "model", ["w1"])
        engine = start_engine(EngineConfig(kv_cache_memory_bytes=64 << 20), model)
        found = asyncio.run(play(engine, model, sessions, turns))
    stop_ray()
    return {f"images_{name}_per_turn": round(value, 3) for name, value in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--turns", type=int, default=12)
    options = parser.parse_args()
    images = images_per_turn(options.sessions, options.turns)
    vision, text = run("tiny_pixels_web", options.updates), run("tiny_web", options.updates)
    ratio = {name: round(vision[name] / text[name], 3) for name in ("turns_per_s", "tokens_per_s")}
    rounded = {
        kind: {name: round(value, 3) for name, value in one.items()}
        for kind, one in (("vision", vision), ("text", text))
    }
    print(json.dumps({"benchmark": "vision", "vision_over_text": ratio, **images, **rounded}))


if __name__ == "__main__":
    main()

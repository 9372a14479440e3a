"""A judge whose server process is killed scores after its restart, or not at all: never 0 for the server's end."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest
from turnwise.records import Group, GroupState
from turnwise.tests.trainer.algorithms.rewards.test_llm_judge import group
from turnwise.trainer.algorithms.rewards.llm_judge import LLMJudge
from turnwise.trainer.rollout.scoring import Scoring, score

SERVER = r"""
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = sys.argv[2]

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"choices": [{"message": {"content": '{"score": 0.75}'}}]}).encode()
        self.send_response(200)
        if self.protocol_version == "HTTP/1.1":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:-9])
        sys.stdout.write("half\n")
        sys.stdout.flush()
        time.sleep(float(sys.argv[3]))
        self.wfile.write(body[-9:])

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
"""Writes a response in two halves, with a pause between them. Without a length, the end of the connection ends it."""


@contextmanager
def server(port: int, protocol: str, pause_s: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SERVER, str(port), protocol, str(pause_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def killed_while_it_judges(port: int, protocol: str, of: Group, max_retries: int) -> tuple[Thread, list[Scoring]]:
    """Return the scoring that waits for a server which was killed in the middle of its answers."""
    judge = LLMJudge(url=f"http://127.0.0.1:{port}/v1", model="judge", rubric="x", max_retries=max_retries)
    found: list[Scoring] = []
    with server(port, protocol, 60) as process:
        scoring = Thread(target=lambda: found.append(score(of, [judge], [])), daemon=True)
        scoring.start()
        assert process.stdout is not None
        for _ in of.trajectories:
            assert process.stdout.readline() == "half\n"
    return scoring, found


@pytest.mark.parametrize("protocol", ["HTTP/1.1", "HTTP/1.0"])
def test_a_judge_that_is_killed_in_its_answers_and_restarted_scores_every_member(protocol: str) -> None:
    port = free_port()
    scoring, found = killed_while_it_judges(port, protocol, group(0.5, -1.0, 0.0), 3)
    with server(port, protocol, 0):
        scoring.join(60)
    (one,) = found
    assert (one.state, one.scored.rewards) == (GroupState.READY, [[1.25], [-0.25], [0.75]])


def test_a_judge_that_is_killed_and_stays_away_gives_no_score() -> None:
    scoring, found = killed_while_it_judges(free_port(), "HTTP/1.1", group(0.5, -1.0, 0.0), 0)
    scoring.join(60)
    (one,) = found
    assert (one.state, one.scored.rewards, one.scored.unscored) == (GroupState.FAILED, [], 3)
    assert one.reason.startswith("0 of 3 members got a score; ")
    assert [score.rewards for score in one.rewards] == [None] * 3

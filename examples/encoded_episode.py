"""Print one episode as the learner reads it: each message with its source, mask and tokens.

``python examples/encoded_episode.py MODEL_FOLDER`` plays the oracle of `turnwise/Calculator-v0`; its actions stand for
sampled ones. docs/guide/encoded_episode.md shows the output.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from turnwise.agents.tokens.conversation import Conversation
from turnwise.agents.tokens.renderers.text import TextRenderer
from turnwise.envs import make
from turnwise.records import Message


def episode(renderer: TextRenderer, env_id: str = "turnwise/Calculator-v0", seed: int = 0) -> Iterator[Message]:
    """Yield the messages of an episode of the oracle."""
    env = make(env_id)
    conversation = Conversation(renderer, env.instructions())
    observation, _ = env.reset(seed=seed)
    over = False
    while not over:
        yield conversation.observe(str(observation))
        action = env.oracle()
        ids = renderer.encode_completion(action)
        yield conversation.act(ids, [-0.1] * len(ids), [0] * len(ids))
        observation, _, terminated, truncated, _ = env.step(action)
        over = terminated or truncated
    env.close()


def lines(renderer: TextRenderer, messages: Iterator[Message]) -> Iterator[str]:
    """Yield a line per token run: its mask, the number of its tokens, and their text."""
    yield "mask tokens source    text"
    for message in messages:
        text = renderer.encoder._backend.decode(list(message.tokens), skip_special_tokens=False)
        mask = "".join(str(int(one)) for one in sorted(set(message.mask)))
        first, *others = text.split("\n")
        yield f"{mask:4} {len(message.tokens):6} {message.source.value:9} {first}"
        for one in others:
            yield f"{'':22}{one}"


if __name__ == "__main__":
    chat = TextRenderer(Path(sys.argv[1]))
    print("\n".join(lines(chat, episode(chat))))

"""From a trajectory's message tree to what the learner trains on: its root-to-leaf paths.

Pure. A message that several leaves share (a branch point) is trained on once: in the first path that holds it; in the
others its tokens stay as context with mask 0.
"""

from ...records import Message, Sample, Trajectory


def paths(messages: list[Message]) -> list[list[Message]]:
    """Root-to-leaf paths, in the order of their leaves."""
    by_index = {message.index: message for message in messages}
    parents = {message.parent for message in messages}
    out = []
    for leaf in messages:
        if leaf.index in parents:
            continue
        path, node = [leaf], leaf
        while node.parent is not None:
            node = by_index[node.parent]
            path.append(node)
        out.append(path[::-1])
    return out


def samples(trajectory: Trajectory) -> list[Sample]:
    """The samples of a trajectory. A trailing message nobody answered (an observation after the last action) is left
    out.
    """
    turn_of = {step.message: step.index for step in trajectory.steps if step.message is not None}
    trained: set[int] = set()
    out = []
    for path in paths(list(trajectory.messages)):
        while path and not any(path[-1].mask):
            path = path[:-1]
        tokens: list[int] = []
        mask: list[int] = []
        logprobs: list[float] = []
        versions: list[int] = []
        turns: list[int] = []
        for message in path:
            turn = turn_of.get(message.index, -1)
            fresh = turn >= 0 and message.index not in trained
            trained.add(message.index)
            tokens += message.tokens
            mask += message.mask if fresh else [0] * len(message.tokens)
            logprobs += message.logprobs
            versions += message.versions
            turns += [turn if bit else -1 for bit in message.mask]
        if any(mask):
            images = [image for message in path for image in message.images]
            out.append(Sample(trajectory.id, tokens, mask, logprobs, versions, turns, images))
    return out

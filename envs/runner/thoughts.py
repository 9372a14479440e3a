"""The answer in the text of a turn: the part after leading thoughts.

Trajectories keep the whole text; re-execution removes its thoughts again. ``turnwise/SemiOnline-v0`` alone removes
more: thoughts without a beginning, as chat templates leave them in the texts of experts.
"""

BEGIN, END = "<think>", "</think>"


def without_thoughts(text: str) -> str:
    """Return the text after its leading thoughts, without the blanks between them.

    Leading thoughts begin with ``<think>``, the first word of the text, and end with the first ``</think>``. Thoughts
    without an end, as of a turn that was cut, leave an empty answer. Any later mark is part of the answer.
    """
    start = text.lstrip()
    return start.partition(END)[2].lstrip() if start.startswith(BEGIN) else text

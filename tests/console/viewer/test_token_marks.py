"""Tokens as HTML: classes of values, inert texts, blocks, and curves."""

import re
from dataclasses import replace
from math import inf

from turnwise.console.viewer.token_marks import CHUNK, CHUNK_MAX, COLUMNS, LEVELS, plot, shade, strip
from turnwise.trainer.learner.provenance.token_rows import TokenRow

SAMPLED = TokenRow(5, "x", "policy", 1, -1.1, 7, -0.4, 1.5, mismatch=-0.01, entropy=1.0, staleness=2)
CONTEXT = TokenRow(5, "x", "env", 0, None, None, None, None)


def test_a_token_has_one_class_per_way_to_shade_it() -> None:
    assert shade(SAMPLED, 5) == "m l2 e3 an2 xn4 w4 s2 v2"
    assert shade(CONTEXT, 5) == ""
    most = replace(SAMPLED, logprob=-inf, advantage=inf, importance_weight=0.0, mismatch=inf, entropy=inf, staleness=99)
    assert shade(most, 7) == f"m l{LEVELS} e{LEVELS} ap{LEVELS} xp{LEVELS} w{LEVELS} s{LEVELS} v0"
    assert "xp0" in shade(replace(SAMPLED, mismatch=1e-5), 5)


def test_a_text_in_the_strip_is_inert_and_the_chosen_token_has_the_id() -> None:
    rows = [replace(CONTEXT, text="<script>\x1b"), SAMPLED, replace(CONTEXT, text=None)]
    html = str(strip(rows, 7, 1))
    assert html == ('<div><i>&lt;script&gt;␛</i><i class="m l2 e3 an2 xn4 w4 s2 v0" id=token>x</i><i>5</i> </div>')


def test_25_000_tokens_are_laid_out_in_blocks_that_end_with_a_line() -> None:
    rows = [replace(SAMPLED, text="\n" if place % 10 == 9 else "ab") for place in range(25_000)]
    blocks = re.findall("<div>(.*?)</div>", str(strip(rows, 7)), re.DOTALL)
    assert sum(block.count("<i") for block in blocks) == 25_000
    assert all(CHUNK <= block.count("<i") <= CHUNK_MAX and block.endswith("\n</i>") for block in blocks[:-1])
    assert len(str(strip(rows, 7))) < 60 * len(rows)


def test_a_plot_keeps_zero_and_gaps() -> None:
    drawn = plot([0.0, None, -2.0])
    assert (drawn.low, drawn.high, drawn.zero, drawn.path) == (-2.0, 0.0, 2.0, "M0.0,2.0H333.3M666.7,58.0H1000.0")


def test_a_plot_of_the_largest_numbers_has_a_path() -> None:
    drawn = plot([1e308, -1e308, 5e-324])
    assert drawn.path == "M0.0,2.0H333.3L333.3,58.0H666.7L666.7,30.0H1000.0"


def test_a_long_plot_has_the_largest_value_of_each_part() -> None:
    values: list[float | None] = [0.1] * (10 * COLUMNS)
    values[4321] = -7.0
    drawn = plot(values)
    assert (drawn.path.count("H"), drawn.low, drawn.high) == (COLUMNS, -7.0, 0.1)

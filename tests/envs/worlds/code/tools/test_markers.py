"""The text of an action may contain any marker: a marker counts in its place only, or the action is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.code.tools.actions import Bash, Edit, MalformedAction, Submit, View, Write, parse

SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Characters at which ``str.splitlines`` ends a line and a file does not."""
LINES = st.sampled_from(
    ["a", "", "=====", "=======", "<<<<<<<", "<<<<<<< HEAD", ">>>>>>>", ">>>>>>> x", "```", "```python", "</think>"]
    + [f"a{each}b" for each in SEPARATORS]
)

RUN = "```bash\nrm -rf build\n```\n"
CONFLICT = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n"


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("write n.md\nThe closing tag is </think>\nsubmit\n", Write("n.md", "The closing tag is </think>\nsubmit\n")),
        ('write c.py\nTAG = "</think>"\n', Write("c.py", 'TAG = "</think>"\n')),
        ("bash echo '</think>'\nsubmit", Bash("echo '</think>'\nsubmit")),
        ("```bash\necho '</think>'\nsubmit\n```", Bash("echo '</think>'\nsubmit")),
        ("I list.\n```\nbash echo '</think>'\n```", Bash("echo '</think>'")),
        ("I look first.\n</think>\n\nview a", View("a")),
        ("reason</think>view a", View("a")),
        ("Say:\n```python\nprint(1)\n```\n</think>\nsubmit", Submit()),
        (f"I could\n{RUN}but no.\n</think>\nsubmit", Submit()),
        (f"I could\n{RUN}but no.\n</think>\n\n```bash\nls\n```", Bash("ls")),
        (f"First\n{RUN}\n</think>\n{RUN}\n</think>\nsubmit", Submit()),
        ("I could\n```\nsubmit\n```\nbut no.\n</think>\nview a", View("a")),
        (f"I could\r\n{RUN}but no.\r\n  </think> \r\nview a", View("a")),
        (f"{RUN}removes the tag </think> too", Bash("rm -rf build")),
        (f"{RUN}</think>\n", Bash("rm -rf build")),
        (f"{RUN}submit\n</think>\nview a", Bash("rm -rf build")),
        ("```bash\ncat > a <<X\n</think>\nsubmit\nX\n```", Bash("cat > a <<X\n</think>\nsubmit\nX")),
        (
            "```\nwrite n.md\n```sh\nmake\n```\n</think>\nsubmit\n```",
            Write("n.md", "```sh\nmake\n```\n</think>\nsubmit\n"),
        ),
        ("write a.txt\n<think>x</think>\n", Write("a.txt", "<think>x</think>\n")),
    ],
)
def test_only_leading_reasoning_is_dropped(text: str, action: object) -> None:
    assert parse(text) == action


@pytest.mark.parametrize("text", ["I write.\nwrite a\n</think>\nsubmit\n", "</think>"])
def test_reasoning_that_hides_no_action_is_refused(text: str) -> None:
    with pytest.raises(MalformedAction):
        parse(text)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("write n.md\n```sh\nmake\n```\n", Write("n.md", "```sh\nmake\n```\n")),
        ("write README\n```\nmake\n```\n", Write("README", "```\nmake\n```\n")),
        ("write n.py\n```\na\n```\nb\n```\nc\n```\n", Write("n.py", "```\na\n```\nb\n```\nc\n```\n")),
        ("```\nwrite n.md\n```sh\nmake\n```\n```", Write("n.md", "```sh\nmake\n```\n")),
        ("````\nwrite n.md\n```\nmake\n```\n````", Write("n.md", "```\nmake\n```\n")),
        ("bash cat > n.md <<'X'\n```\nmake\n```", Bash("cat > n.md <<'X'\n```\nmake\n```")),
        ("write a.py\n````\nx = '''\n```\n'''\n````", Write("a.py", "x = '''\n```\n'''\n", unfenced=True)),
    ],
)
def test_a_file_keeps_its_own_fences(text: str, action: object) -> None:
    assert parse(text) == action


@pytest.mark.parametrize(
    "text",
    [
        "```\nwrite n.md\n```\nmake\n```\n```\n```",
        "```\nwrite n.md\n```\nx\n```",
        "```\nwrite a\n```\n</think>\nsubmit\n```",
    ],
)
def test_fences_with_two_readings_are_refused(text: str) -> None:
    with pytest.raises(MalformedAction, match="fence"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("<<<<<<<\nTi\n=====\nold\n=======\nTi\n=====\nnew\n>>>>>>>", ("Ti\n=====\nold\n", "Ti\n=====\nnew\n")),
        ("<<<<<\n=======\n=====\n-------\n>>>>>", ("=======\n", "-------\n")),
        ("<<<<<<<<<<<\n=======\n===========\n\n>>>>>>>>>>>", ("=======\n", "\n")),
        (f"<<<<<<<\n{CONFLICT}=======\nc\n>>>>>>>", (CONFLICT, "c\n")),
        ("<<<<<<<\n>>>>>>> x\n=======\n>>>>>>>", (">>>>>>> x\n", "")),
        ("<<<<<<<\r\na\r\n=======\r\nb\r\n>>>>>>>\r\n", ("a\r\n", "b\r\n")),
    ],
)  # fmt: skip
def test_lines_of_marks_are_content_if_the_block_has_one_reading(text: str, blocks: tuple[str, str]) -> None:
    assert parse(f"edit a\n{text}") == Edit("a", (blocks,))


@pytest.mark.parametrize(
    "text",
    [
        "<<<<<<<\nTitles!\n=======\nold\n=======\nnew\n>>>>>>>",
        "<<<<<<<\nold\n=======\nTitles!\n=======\n>>>>>>>",
        "<<<<<<<\n=======\n=======\n>>>>>>>",
        "<<<<<<<\na\n=======\nb\n>>>>>>> x\nc\n>>>>>>>",
        "<<<<<<<\n<<<<<<< HEAD\n=======\n>>>>>>>",
        "<<<<<<<\na\n======\nb\n>>>>>>>",
        "<<<<<<<\na\n>>>>>>>\n<<<<<<<\nb\n=======\nc\n>>>>>>>",
    ],
)
def test_an_edit_with_two_readings_is_refused(text: str) -> None:
    with pytest.raises(MalformedAction, match="use more of them"):
        parse(f"edit a\n{text}")


@given(
    st.lists(st.tuples(st.lists(LINES, min_size=1, max_size=6), st.lists(LINES, max_size=6)), min_size=1, max_size=3)
)
def test_longer_marks_make_every_edit_readable(pairs: list[tuple[list[str], list[str]]]) -> None:
    text = "".join(f"{'<' * 9}\n{text_of(old)}{'=' * 9}\n{text_of(new)}{'>' * 9}\n" for old, new in pairs)
    assert parse(f"edit a\n{text}") == Edit("a", tuple((text_of(old), text_of(new)) for old, new in pairs))


@given(st.lists(LINES, min_size=1, max_size=6))
def test_every_text_can_be_written(lines: list[str]) -> None:
    assert parse(f"write a.md\n{text_of(lines)}") == Write("a.md", text_of(lines))


@pytest.mark.parametrize("text", ["write a\n\ud800", "bash echo \udcff"])
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(MalformedAction, match="surrogate"):
        parse(text)

"""The text of an action has one meaning, or is rejected with a reason."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.envs.worlds.code.tools.actions import Bash, Edit, MalformedAction, Submit, View, Write, parse


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("bash ls -la", Bash("ls -la")),
        ("bash\nls\npwd\n", Bash("ls\npwd")),
        ("bash\n```\nls\n```", Bash("ls")),
        ("```bash\nls\n```", Bash("ls\n".strip())),
        ("I look first.\n\n```sh\nls -la\n```\n", Bash("ls -la")),
        ("```\nview a.py 2 3\n```", View("a.py", 2, 3)),
        ("view a b.py", View("a b.py")),
        ("submit", Submit()),
        ("  submit  \n", Submit()),
        ("write a.py\nx = 1", Write("a.py", "x = 1\n")),
        ("write a.py\nx = 1\n\n\n", Write("a.py", "x = 1\n\n\n")),
        ("write a.py\n```python\nx = 1\n```", Write("a.py", "x = 1\n", unfenced=True)),
        ("write empty.txt", Write("empty.txt", "")),
        ("edit a.py\n<<<<<<<\nx\n=======\n>>>>>>>", Edit("a.py", (("x\n", ""),))),
        (
            "edit a.py\n<<<<<<< SEARCH\nx\ny\n=======\nz\n>>>>>>> REPLACE\n<<<<<<<\nb\n=======\nc\n>>>>>>>\n",
            Edit("a.py", (("x\ny\n", "z\n"), ("b\n", "c\n"))),
        ),
    ],
)
def test_a_text_has_one_meaning(text: str, action: object) -> None:
    assert parse(text) == action


@pytest.mark.parametrize(
    "text", ["", "ls", "bash  ", "```\nls\n```", "submitted", "view a 0 3", "view a 3 2", "edit a\nx"]
)
def test_invalid_text_is_rejected(text: str) -> None:
    with pytest.raises(MalformedAction):
        parse(text)


@given(st.text(max_size=200), st.sampled_from(["", "bash ", "view ", "edit a\n", "write a\n", "```bash\n"]))
def test_only_documented_errors_are_raised(text: str, head: str) -> None:
    with contextlib.suppress(MalformedAction):
        parse(head + text)


@given(st.text(alphabet="ab`<=>\n ", max_size=60))
def test_content_is_written_as_it_is(content: str) -> None:
    wanted = content if content.endswith("\n") or not content else content + "\n"
    written = parse(f"write a\n{content}")
    assert isinstance(written, Write)
    if "```" not in content:
        assert written.content == wanted

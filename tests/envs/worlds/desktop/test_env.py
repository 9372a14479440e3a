"""Episodes on a real desktop."""

import hashlib

import pytest
from turnwise.envs.spaces import Png
from turnwise.envs.worlds.computer.elements import resolve
from turnwise.envs.worlds.desktop.desktop_session import DesktopSession
from turnwise.tests.envs.worlds.desktop.playing import Played, text_of

RENAME = (
    "click({listitem 'draft.txt'})",
    'press("F2")',
    'press("ctrl+a")',
    'type("é b.txt")',
    'press("Return")',
    "done()",
)


@pytest.fixture(scope="module")
def env(desktop: DesktopSession) -> Played:
    """An environment on the desktop of all modules, with text and screenshots."""
    made = Played("both")
    made.desktop = desktop
    return made


def test_a_file_is_renamed_in_the_file_manager(env: Played) -> None:
    text = env.begin("pcmanfm .", files={"draft.txt": b"hello", "empty/": b""}, data={"é b.txt": b"hello"})
    assert text.startswith("goal: test\n[1] window 'user' focused\n")
    for action in RENAME[:-1]:
        _, reward, over, info = env.act(action)
        assert (reward, over, info["action_valid"]) == (0.0, False, True)
    _, reward, over, info = env.act("done()")
    assert (reward, over, info["success"]) == (1.0, True, True)
    assert env.end is not None
    assert env.end.folders == {"empty"}
    assert [(one.application, one.focused) for one in env.end.windows] == [("pcmanfm", True)]


def test_two_episodes_show_the_same_elements_and_the_same_pixels(env: Played) -> None:
    seen = []
    for _ in range(2):
        env.begin("mousepad notes.txt", files={"notes.txt": b"one\ntwo\n"})
        hashes = []
        for action in ("click({menuitem 'Edit'})", 'press("Escape")', 'press("ctrl+End")', 'type("three")'):
            observation, *_ = env.step(resolve(action, env.nodes))
            assert isinstance(observation, dict)
            hashes.append((observation["text"], hashlib.sha256(observation["image"]).hexdigest()))
        seen.append(hashes)
    assert seen[0] == seen[1]
    assert "value='one ⏎ two ⏎ three'" in seen[0][-1][0]


def test_the_screen_does_not_depend_on_how_long_the_pointer_rests(env: Played) -> None:
    env.begin("ristretto")
    seen = [env.step(resolve(action, env.nodes))[0] for action in ("move({button 'Open...'})", "wait(900)")]
    assert seen[0] == seen[1]


@pytest.mark.soak
def test_a_file_dialog_is_the_same_after_seconds(env: Played) -> None:
    env.begin("mousepad a.txt", files={"a.txt": b""})
    first, *later = (env.step(action)[0] for action in ('press("ctrl+shift+s")', "wait(3000)", "wait(2000)"))
    assert [one == first for one in later] == [True, True]


def test_coordinates_and_the_pyautogui_dialect_act_too(env: Played) -> None:
    env.begin("mousepad a.txt", files={"a.txt": b""}, data={"a.txt": b"ab\n"})
    x, y, width, height = next(node["rect"] for node in env.nodes if node["role"] == "textbox")
    env.act(f"click({x + width // 2}, {y + height // 2})")
    env.act("pyautogui.typewrite('ab'); pyautogui.press('enter'); pyautogui.hotkey('ctrl', 's')")
    _, reward, over, _ = env.act("DONE")
    assert (reward, over) == (1.0, True)


def test_an_action_that_cannot_be_executed_is_answered(env: Played) -> None:
    env.begin("galculator")
    for action, part in {
        "click(999)": "element 999 is not on the screen",
        "click(4000, 10)": "outside the screen of 1024 x 768",
        'press("ctrl+nokey")': "unknown key 'nokey'",
        "clik(1)": "did you mean click?",
    }.items():
        text, reward, over, info = env.act(action)
        assert text.startswith("error: ")
        assert part in text
        assert (reward, over, info["action_valid"]) == (0.0, False, False)


def test_giving_up_ends_the_episode_without_success(env: Played) -> None:
    env.begin("galculator")
    _, reward, over, info = env.act("fail()")
    assert (reward, over, info["success"]) == (0.0, True, False)
    assert env.end is not None
    assert env.end.gave_up
    assert text_of(env.step("done()")[0]) == "ended"


def test_a_click_on_a_window_raises_it(env: Played) -> None:
    env.begin("mousepad a.txt", "galculator", files={"a.txt": b""})
    assert next(node["name"] for node in env.nodes if node["role"] == "window") == "galculator"
    env.act("click({window '~/a.txt - Mousepad'})")
    assert next(node["name"] for node in env.nodes if node["role"] == "window") == "~/a.txt - Mousepad"
    env.act('press("alt+Tab")')
    assert next(node["name"] for node in env.nodes if node["role"] == "window") == "galculator"


def test_marks_are_drawn_and_the_screenshot_is_a_png(desktops: None, env: Played) -> None:
    env.begin("galculator")
    plain = env.screenshot()
    assert isinstance(plain, Png)
    assert (plain.width, plain.height) == (1024, 768)
    env.marks = True
    observation, *_ = env.step("wait(0)")
    env.marks = False
    assert isinstance(observation, dict)
    assert (observation["image"].pixels() != plain.pixels()).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"observation": "sound"}, "unknown `observation`"), ({"marks": True}, "drawn on screenshots")],
)
def test_an_unknown_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Played(**options)  # type: ignore[arg-type]


def test_a_line_end_is_one_return(env: Played) -> None:
    env.begin("mousepad a.txt", files={"a.txt": b""}, data={"a.txt": b"a\nb\nc\n\nd"})
    assert env.act(r'type("a\r\nb\rc\n\nd")')[3]["action_valid"]
    env.act('press("ctrl+s")')
    assert env.act("done()")[1:3] == (1.0, True)


def test_a_line_end_as_a_key_is_return(env: Played) -> None:
    env.begin("mousepad a.txt", files={"a.txt": b""}, data={"a.txt": b"a\n\nb"})
    for action in ('type("a")', r'press("\n")', r"pyautogui.press('\r')", 'type("b")', 'press("ctrl+s")'):
        assert env.act(action)[3]["action_valid"]
    assert env.act("done()")[1:3] == (1.0, True)


CHARACTERS = (0x00, 0x01, 0x1B, 0x1C, 0x7F, 0x85, 0xD800, 0xDFFF)


@pytest.mark.parametrize("action", ['type("ab{}c")', "pyautogui.write('ab{}c')", 'press("ctrl+{}")'])
def test_a_character_that_no_key_types_is_refused(env: Played, action: str) -> None:
    first = env.begin("mousepad a.txt", files={"a.txt": b""})
    for code in CHARACTERS:
        text, reward, over, info = env.act(action.format(f"\\u{code:04x}"))
        assert text.startswith("error: ")
        assert f"no key types the character U+{code:04X}" in text
        assert (reward, over, info["action_valid"]) == (0.0, False, False)
    assert first.endswith(env.act("wait(0)")[0])

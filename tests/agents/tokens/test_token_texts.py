"""The text of one token: with the space that its word begins with, and named where it is a part of a character."""

import os
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from turnwise.agents.tokens.token_texts import TokenTexts, system_text
from turnwise.records import Message, Role, Source, Step, Trajectory


def texts(folder: Path, vocabulary: list[str], decoder: decoders.Decoder) -> TokenTexts:
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(vocabulary)}, []))
    tokenizer.decoder = decoder
    tokenizer.save(str(folder / "tokenizer.json"))
    loaded = TokenTexts.load([folder / "nothing", folder])
    assert loaded is not None
    return loaded


def test_bytes_that_are_a_part_of_a_character_are_named(tmp_path: Path) -> None:
    names = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(" aé")[0][0]
    found = texts(tmp_path, list(names), decoders.ByteLevel())
    assert [found.text(token) for token in range(4)] == [" ", "a", names[2], names[3]]
    assert found.decode(range(4)) == " aé"
    assert found.text(99) == ""


def test_a_word_keeps_its_space(tmp_path: Path) -> None:
    found = texts(tmp_path, ["▁go", "ing"], decoders.Metaspace())
    assert [found.text(0), found.text(1), found.decode([0, 1])] == [" go", "ing", "going"]


def test_a_run_without_a_tokenizer_has_no_texts(tmp_path: Path) -> None:
    assert TokenTexts.load([tmp_path]) is None


def test_a_tokenizer_is_read_once_until_it_changes(tmp_path: Path) -> None:
    first = texts(tmp_path, ["go"], decoders.Fuse())
    assert TokenTexts.load([tmp_path]) is first
    os.utime(tmp_path / "tokenizer.json", ns=(1, 1))
    assert TokenTexts.load([tmp_path]) is not first


def test_instructions_end_before_the_first_observation_and_its_images() -> None:
    tokenizer = Tokenizer(models.WordLevel({"Answer": 0, "<b>": 1, "page": 2}, "page"))
    tokenizer.add_special_tokens([AddedToken(one, special=True) for one in ("<pad>", "<start>", "<end>")])
    found = []
    for tokens, images, observation in (
        ([0, 1, 1, 2], (), "page"),
        ([0, 1, 1, 2], (), ""),
        ([0, 1, 1, 4, 3, 3, 3, 5, 2], ("0" * 64,), "page"),
        ([0, 1, 1, 4, 3, 3, 3, 5], ("0" * 64,), ""),
        ([4, 3, 5, 4, 3, 3, 5, 2], ("0" * 64, "1" * 64), "page"),
        ([0, 3, 3, 2], ("0" * 64,), "page"),
    ):
        size = len(tokens)
        message = Message(
            0, None, Role.USER, Source.TEMPLATE, tokens, [0] * size, [0.0] * size, [-1] * size, images=images
        )
        step = Step(0, observation, "", "", 0.0, {}, False, False, True, "", 0, 0.0, 0.0)
        trajectory = Trajectory("a", "r", "g", 0, 0, steps=[step], messages=[message])
        found.append(system_text(TokenTexts(tokenizer), trajectory).strip())
    assert found == ["Answer <b> <b>", "Answer <b> <b> page", "Answer <b> <b>", "Answer <b> <b>", "", "Answer"]

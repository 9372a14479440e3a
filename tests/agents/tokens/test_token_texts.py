"""The text of one token: with the space that its word begins with, and named where it is a part of a character."""

import os
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from turnwise.agents.tokens.token_texts import TokenTexts


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

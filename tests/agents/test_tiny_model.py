"""The folder of a tiny model is deterministic and loadable, and its words round-trip."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer
from turnwise.agents.tiny_model import new_model

WORDS = ["task", ":", "find", "price", "of", "lamp", "click", "back", "answer", "done", "23", "visited"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("model") / "m", WORDS, seed=3)


def test_the_config_matches_the_arguments(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["model_type"] == "qwen3"
    assert (config["hidden_size"], config["intermediate_size"], config["head_dim"]) == (128, 256, 32)
    assert config["rope_parameters"]["rope_theta"] == 1e6
    assert config["dtype"] == "float32"
    assert config["tie_word_embeddings"] is True


def test_equal_seeds_write_equal_weights(folder: Path, tmp_path: Path) -> None:
    again = new_model(tmp_path / "again", WORDS, seed=3)
    other = new_model(tmp_path / "other", WORDS, seed=4)
    assert (again / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    assert (other / "model.safetensors").read_bytes() != (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("arch", ["qwen3", "llama"])
@pytest.mark.parametrize("tie", [True, False])
def test_loads_with_mimetic_weights(tmp_path: Path, arch: str, tie: bool) -> None:
    path = new_model(tmp_path / "m", WORDS, seed=1, arch=arch, tie=tie)  # type: ignore[arg-type]
    model = AutoModelForCausalLM.from_pretrained(path, dtype="auto")
    attention = model.model.layers[1].self_attn
    assert torch.equal(attention.q_proj.weight, attention.k_proj.weight)
    product = attention.o_proj.weight @ attention.v_proj.weight
    assert torch.allclose(product, torch.eye(128), atol=1e-4)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tie
    assert abs(model.model.embed_tokens.weight.std().item() - 0.1) < 0.01
    assert model.dtype == torch.float32


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12))
def test_words_round_trip(folder: Path, words: list[str]) -> None:
    tokenizer = _tokenizer(folder)
    ids = tokenizer(" ".join(words))["input_ids"]
    assert len(ids) == len(words)
    assert tokenizer.decode(ids) == " ".join(words)


def test_words_of_two_messages_stay_apart(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "system", "content": WORDS[0]}, {"role": "user", "content": WORDS[1]}]
    assert tokenizer.apply_chat_template(chat, tokenize=False).split() == list(WORDS[:2])


def test_template_has_no_separator_before_the_action(folder: Path) -> None:
    tokenizer = _tokenizer(folder)
    messages = [{"role": "user", "content": "find lamp"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer(text)["input_ids"] == tokenizer("find lamp")["input_ids"]


@pytest.mark.parametrize(("words", "message"), [([], "empty"), (["two words"], "two words"), ([""], "not a word")])
def test_an_invalid_vocabulary_is_rejected(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new_model(tmp_path / "m", words)


def test_an_existing_model_is_not_overwritten(folder: Path) -> None:
    with pytest.raises(FileExistsError, match="already holds a model"):
        new_model(folder, WORDS)


_cache: dict[Path, object] = {}


def _tokenizer(folder: Path):
    if folder not in _cache:
        _cache[folder] = AutoTokenizer.from_pretrained(folder)
    return _cache[folder]

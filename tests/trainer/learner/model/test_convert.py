"""A GGUF file becomes a folder with the same model and tokens; any other file is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.learner.model.gguf_files import CHATML, TOKENS, small_llama, write_gguf
from turnwise.trainer.learner.model import convert
from turnwise.trainer.learner.model.convert import convert_gguf


@pytest.fixture(scope="module")
def model() -> Any:
    return small_llama()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.tensor([[1, 70, 80, 90, 2, 100, 200]])).logits
    return found


@pytest.mark.parametrize("tied", [False, True])
def test_the_folder_has_the_model_and_the_tokens_of_the_file(tmp_path: Path, tied: bool) -> None:
    original = small_llama(tied=tied)
    assert convert_gguf(write_gguf(tmp_path / "a.gguf", original), tmp_path / "folder") == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gguf", "folder"]
    converted = AutoModelForCausalLM.from_pretrained(tmp_path / "folder", dtype=torch.float32)
    assert converted.config.tie_word_embeddings is tied
    assert torch.equal(logits(converted), logits(original))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    assert tokenizer.eos_token_id == TOKENS.index("<|im_end|>")
    assert tokenizer.get_chat_template() == CHATML
    # The file's rule splits digits from each other and from spaces: neither "12" nor " 1" is one token.
    assert tokenizer.tokenize("ab  12<|im_end|>") == ["ab", "ĠĠ", "1", "2", "<|im_end|>"]


def test_every_end_that_the_file_names_is_a_stop_token(tmp_path: Path, model: Any) -> None:
    convert_gguf(write_gguf(tmp_path / "a.gguf", model), tmp_path / "folder")
    ends = json.loads((tmp_path / "folder/generation_config.json").read_text())["eos_token_id"]
    assert ends == [TOKENS.index("<|im_end|>"), TOKENS.index("<|eot|>")]


def test_files_beside_the_gguf_file_are_not_read(tmp_path: Path, model: Any) -> None:
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json", "generation_config.json"):
        (tmp_path / name).write_text("not JSON")
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('no') }}")
    convert_gguf(write_gguf(tmp_path / "a.gguf", model), tmp_path / "folder")
    assert AutoTokenizer.from_pretrained(tmp_path / "folder").get_chat_template() == CHATML


def test_an_unknown_pre_tokenizer_is_reported(tmp_path: Path, model: Any) -> None:
    file = write_gguf(tmp_path / "a.gguf", model, tokenizer__ggml__pre="viking")
    assert "pre-tokenizer `viking` is not known" in convert_gguf(file, tmp_path / "folder")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokenizer__chat_template": None}, "has no chat template"),
        ({"tokenizer__chat_template": " "}, "has no chat template"),
        ({"split__count": 3}, "is one of 3 parts: join them first"),
        ({"general__type": "adapter"}, "holds no model, but a `adapter`"),
        ({"arch": "clip"}, "transformers does not read the architecture `clip`"),
        ({"arch": "mamba"}, "layers of the type linear_attention"),
        ({"llama__rope__scaling__type": "yarn"}, "its rotary embedding is scaled"),
        ({"without": "blk.1.attn_q.weight"}, r"lacks 1 tensors of the model.*model\.layers\.1\.self_attn\.q_proj"),
        ({"more": ("blk.0.attn_q.bias",)}, r"has 1 tensors that transformers does not read: blk\.0\.attn_q\.bias"),
        ({"more": ("blk.1.ffn_down.scale", "nextn.norm.weight")}, "has 2 tensors that .*: blk.1.ffn_down.scale, nextn"),
        ({"more": ("rope_freqs.weight",)}, "its rotary embedding is scaled"),
        ({"llama__embedding_length": 48}, "lacks .* tensors of the model, or has them in another shape"),
        ({"tokenizer__ggml__model": "rwkv"}, "transformers cannot read it: ValueError: Cannot build a tokenizer"),
        ({"llama__attention__head_count": None}, "lacks .* tensors of the model, or has them in another shape"),
    ],
)
def test_a_file_that_gives_no_such_model_is_refused(
    tmp_path: Path, model: Any, fields: dict[str, Any], message: str
) -> None:
    file = write_gguf(tmp_path / "a.gguf", model, **fields)
    with pytest.raises(TurnwiseError, match=message) as refused:
        convert_gguf(file, tmp_path / "folder")
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


def test_a_file_that_is_not_a_whole_gguf_file_is_refused(tmp_path: Path, model: Any) -> None:
    content = write_gguf(tmp_path / "a.gguf", model).read_bytes()
    cases = {
        b"": "is not a GGUF file",
        b"PK\x03\x04" + content: "is not a GGUF file",
        b"GGUF": "is damaged or incomplete",
        content[:100]: "is damaged or incomplete",
        content[:5000]: "is damaged or incomplete",
        content[: len(content) // 2]: "is damaged or incomplete",
        content[:-1]: "is damaged or incomplete",
        content[:4] + b"\xff" * 4 + content[8:]: "is damaged or incomplete",
        content[:24] + b"\xff" * 8 + content[32:]: "is damaged or incomplete",
    }
    for damaged, message in cases.items():
        (tmp_path / "b.gguf").write_bytes(damaged)
        with pytest.raises(TurnwiseError, match=message) as refused:
            convert_gguf(tmp_path / "b.gguf", tmp_path / "folder")
        assert "\n" not in str(refused.value)
    for name, message in {"none.gguf": "none.gguf` does not exist", ".": "cannot be read: it is a folder"}.items():
        with pytest.raises(TurnwiseError, match=message):
            convert_gguf(tmp_path / name, tmp_path / "folder")


def test_a_folder_that_exists_is_kept(tmp_path: Path, model: Any) -> None:
    file = write_gguf(tmp_path / "a.gguf", model)
    with pytest.raises(TurnwiseError, match=r"exists: choose a new folder"):
        convert_gguf(file, tmp_path)
    with pytest.raises(TurnwiseError, match=r"exists: choose a new folder"):
        convert_gguf(file, file)


def test_missing_space_and_memory_are_named(tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_gguf(tmp_path / "a.gguf", model)
    with monkeypatch.context() as patch:
        patch.setattr(convert, "FLOAT32_BYTES", 1 << 40)
        with pytest.raises(TurnwiseError, match=r"GB of weights in float32, and .* free: free some space"):
            convert_gguf(file, tmp_path / "deep/folder")
    monkeypatch.setattr(convert, "PEAK_COPIES", 1 << 40)
    with pytest.raises(TurnwiseError, match=r"GB of memory, and .* are free: convert a smaller model"):
        convert_gguf(file, tmp_path / "folder")


@pytest.mark.slow
def test_the_pretrained_policy_answers(smollm2: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    policy = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    sampled = policy.generate(**prompt, max_new_tokens=20, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(sampled) == "The capital of France is Paris.<|im_end|>"

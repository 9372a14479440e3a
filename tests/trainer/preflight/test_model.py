"""A model folder is refused before anything starts, in one line that names the file or key to change."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM
from turnwise.agents.tiny_model import new_model
from turnwise.agents.tiny_vision_model import new_vision_model
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.learner.model.parity import tokenizers as styles
from turnwise.tests.trainer.learner.model.parity.tokenizers import new_tokenizer
from turnwise.tests.trainer.preflight.refusing import call
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.config.schema import RunConfig
from turnwise.trainer.learner import checkpoint
from turnwise.trainer.learner.backends.state_files import save_state
from turnwise.trainer.learner.model.loading import load_model
from turnwise.trainer.preflight.model import (
    refuse_untrainable_model,
    refuse_unusable,
    unplannable_model,
    unplayable_model,
    untrainable_model,
)
from turnwise.trainer.preflight.refusal import Command

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 128,
}


def new_folder(path: Path, family: str = "llama", rows: int = 0, **options: Any) -> Path:
    """Write a model with random weights and a ChatML tokenizer."""
    tokenizer = new_tokenizer(styles.CHATML, 128)
    sizes = {**SMALL, "tie_word_embeddings": False, "vocab_size": rows or len(tokenizer), **options}
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **sizes, **ids)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_folder(tmp_path_factory.mktemp("model") / "whole")


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "model")
    return tmp_path / "model"


def refusal(model: Path, max_context: int = 64, *, trains: bool = True) -> str:
    with pytest.raises(TurnwiseError) as refused:
        refuse_unusable(model, "model.path", max_context, trains=trains)
    assert "\n" not in str(refused.value)
    assert "`model.path`" in str(refused.value)
    return str(refused.value)


def edit(model: Path, name: str, **values: Any) -> None:
    content = json.loads((model / name).read_text()) if (model / name).exists() else {}
    (model / name).write_text(json.dumps({**content, **values}))


def edit_tensors(model: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(model / "model.safetensors")
    change(tensors)
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})


def shard(model: Path) -> dict[str, str]:
    """Write the weights as two shards and their index; return the file of each tensor."""
    tensors = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    places = {name: f"model-{1 + ('layers.1' in name)}.safetensors" for name in tensors}
    for file in set(places.values()):
        save_file({name: one for name, one in tensors.items() if places[name] == file}, model / file)
    (model / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return places


def test_a_whole_model_is_accepted(model: Path) -> None:
    chat, config = refuse_unusable(model, "model.path", 128, trains=True)
    assert (config.model_type, chat.encoder.token(chat.stop_tokens[0])) == ("llama", "<|im_end|>")
    shard(model)
    refuse_unusable(model, "model.path", 128, trains=True)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2"])
def test_tied_embeddings_need_no_output_matrix(tmp_path: Path, family: str) -> None:
    refuse_unusable(new_folder(tmp_path / "model", family, tie_word_embeddings=True), "model.path", 128, trains=True)


def test_an_output_matrix_that_should_be_tied_and_differs_is_refused(tmp_path: Path) -> None:
    model = new_folder(tmp_path / "model", tie_word_embeddings=True)
    embeddings = load_file(model / "model.safetensors")["model.embed_tokens.weight"]
    edit_tensors(model, lambda tensors: tensors.update({"lm_head.weight": embeddings.clone()}))
    refuse_unusable(model, "model.path", 64, trains=True)
    edit_tensors(model, lambda tensors: tensors.update({"lm_head.weight": embeddings + 1}))
    assert "and `lm_head.weight` differs from `model.embed_tokens.weight`: set it to false" in refusal(model)
    edit(model, "config.json", tie_word_embeddings=False)
    refuse_unusable(model, "model.path", 64, trains=True)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.self_attn.q_proj.weight", "model.norm.weight"])
def test_missing_tensors_are_named(model: Path, name: str) -> None:
    edit_tensors(model, lambda tensors: tensors.pop(name))
    assert f"it lacks `{name}`" in refusal(model)
    with pytest.raises(TurnwiseError, match="it lacks"):
        load_model(model, "cpu")


def test_tensors_left_over_or_of_another_shape_are_named(model: Path) -> None:
    edit(model, "config.json", num_hidden_layers=1, layer_types=None)
    assert "tensors that the model does not use: `model.layers.1." in refusal(model)
    edit(model, "config.json", num_hidden_layers=2, intermediate_size=48)
    assert "tensors of another shape: `model.layers.0.mlp.down_proj.weight ((64, 64) instead of (64, 48))`" in refusal(
        model
    )


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    model = new_folder(tmp_path / "model", "qwen3_moe", **experts)
    refuse_unusable(model, "model.path", 64, trains=True)
    edit_tensors(model, lambda tensors: tensors.pop("model.layers.1.mlp.experts.2.up_proj.weight"))
    assert "it lacks `model.layers.1.mlp.experts.2.up_proj.weight`" in refusal(model)


def test_damaged_and_missing_files_of_weights_are_named(model: Path) -> None:
    whole = (model / "model.safetensors").read_bytes()
    for damaged in (b"", whole[:4], whole[:2000], whole[:-1], whole + b"0", b"\xff" * 100, b"version https://git-lfs"):
        (model / "model.safetensors").write_bytes(damaged)
        assert "model.safetensors` is damaged or incomplete" in refusal(model)
    (model / "model.safetensors").write_bytes(whole)
    places = shard(model)
    (model / "model-2.safetensors").rename(model / "other.safetensors")
    assert "lacks `model-2.safetensors`, which its index names" in refusal(model)
    index = model / "model.safetensors.index.json"
    for broken in ("{", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', "\xff", "[" * 100_000):
        index.write_bytes(broken.encode("latin-1"))
        assert "is no index of shards" in refusal(model)
    index.unlink()
    assert "no `model.safetensors`, and no index of its shards" in refusal(model)
    for file in ("model-1.safetensors", "other.safetensors"):
        (model / file).unlink()
    (model / "pytorch_model.bin").write_bytes(b"")
    assert "no weights in safetensors" in refusal(model)
    assert places


def test_quantized_tensors_are_named(model: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    edit_tensors(model, lambda tensors: tensors.update({name: tensors[name].to(torch.int8)}))
    assert f"holds `{name}` as I8, quantized" in refusal(model)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused_in_the_words_of_its_loader(
    model: Path, name: str, content: bytes
) -> None:
    (model / name).write_bytes(content)
    assert refusal(model).startswith("`model.path`: ")


@pytest.mark.parametrize("metadata", [{}, {"metadata": None}, {"metadata": "512 bytes"}])
def test_an_index_without_metadata_is_refused_by_name(model: Path, metadata: dict[str, Any]) -> None:
    places = shard(model)
    index = model / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places} | metadata))
    assert f"`{index}` has no object `metadata`" in refusal(model)


def test_a_quantized_model_is_refused_by_name_before_its_weights_are_read(model: Path) -> None:
    edit(model, "config.json", quantization_config={"quant_method": "gptq", "bits": 4})
    (model / "model.safetensors").unlink()
    assert "cannot be used: its weights are quantized (`quantization_config`)" in refusal(model, trains=False)


@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "nonsense"},
        {"model_type": None},
        {"model_type": "nonsense", "auto_map": {"AutoConfig": "code.Config"}},
        {"hidden_size": "large"},
        {"hidden_size": None},
        {"hidden_size": -1},
        {"num_attention_heads": 0},
        {"num_hidden_layers": "2"},
        {"vocab_size": 0},
        {"bos_token_id": "2"},
        {"eos_token_id": [None]},
        {"pad_token_id": 100_000},
        {"max_position_embeddings": "32"},
        {"max_position_embeddings": -1},
        {"dtype": "banana", "torch_dtype": "banana"},
        {"dtype": "float8_e4m3fn"},
        {"rope_parameters": {"rope_type": "spiral", "rope_theta": 1e4}},
        {"rope_parameters": 3},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": "4"}},
        {"hidden_act": "unknown"},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {"quantization_config": 4},
        {"architectures": 3},
    ],
)
def test_odd_values_in_the_configuration_end_in_one_line_or_do_nothing(model: Path, values: dict[str, Any]) -> None:
    edit(model, "config.json", **values)
    try:
        refuse_unusable(model, "model.path", 64, trains=True)
    except TurnwiseError as error:
        refused = str(error)
    else:
        refused = ""
        load_model(model, "cpu")
    assert "\n" not in refused


@pytest.mark.parametrize(
    "content",
    [
        {"model": {"type": "BPE"}},
        {"model": {"type": "Unheard", "vocab": {}}},
        {"version": "1.0", "added_tokens": [{"id": 1}], "model": {"type": "BPE", "vocab": {}, "merges": []}},
        {},
    ],
)
def test_a_tokenizer_that_cannot_be_read_is_named(model: Path, content: dict[str, Any]) -> None:
    (model / "tokenizer.json").write_text(json.dumps(content))
    assert "its tokenizer cannot be read" in refusal(model) or "chat template" in refusal(model)


def test_a_folder_without_a_tokenizer_is_refused(model: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (model / name).unlink()
    assert "its tokenizer cannot be read" in refusal(model)


def test_a_folder_without_a_chat_template_is_refused(model: Path) -> None:
    (model / "chat_template.jinja").unlink()
    assert "it has no chat template: take an instruction-tuned model" in refusal(model)


def test_token_ids_beyond_the_embeddings_are_named(tmp_path: Path) -> None:
    rows = len(new_tokenizer(styles.CHATML, 128))
    assert "its vocabulary holds" in refusal(new_folder(tmp_path / "short", rows=rows - 1))
    model = new_folder(tmp_path / "model")
    tokenizer = new_tokenizer(styles.CHATML, 128)
    tokenizer.add_tokens(["<|harmless|>"], special_tokens=True)
    tokenizer.save_pretrained(model)
    refuse_unusable(model, "model.path", 64, trains=True)
    template = tokenizer.chat_template
    tokenizer.chat_template = "<|harmless|>" + template
    tokenizer.save_pretrained(model)
    assert f"its chat template holds '<|harmless|>' ({rows}), and the model has embeddings for {rows}" in refusal(model)
    tokenizer.chat_template, tokenizer.eos_token = template, "<|harmless|>"
    tokenizer.save_pretrained(model)
    assert f"its list of stop tokens holds '<|harmless|>' ({rows})" in refusal(model)


def test_fewer_positions_than_the_context_are_refused(model: Path) -> None:
    assert "`horizon.max_context` is 512, and " in refusal(model, 512)
    assert "set `horizon.max_context` to at most 128" in refusal(model, 129, trains=False)


def test_published_settings_of_sampling_reach_the_checkpoint(model: Path, tmp_path: Path) -> None:
    edit(model, "generation_config.json", do_sample=False, temperature=0.7, top_p=0.9, num_beams=1, early_stopping=True)
    published = (model / "generation_config.json").read_text()
    refuse_unusable(model, "model.path", 64, trains=True)
    learner = load_model(model, "cpu")
    optimizer = torch.optim.AdamW(learner.parameters())
    saved = checkpoint.save(
        tmp_path / "out", 1, lambda folder: save_state(folder, learner, optimizer), model, {}, run_uid="u"
    )
    assert (saved / "generation_config.json").read_text() == published


def run(model: Path, **values: Any) -> RunConfig:
    horizon = {"max_context": 64, "max_tokens_per_turn": 16}
    return RunConfig.model_validate(
        {
            "name": "a",
            "environments": [{"id": "turnwise/TextSite-v0"}],
            "horizon": horizon,
            "model": {"path": str(model), **values},
        }
    )


def test_a_reference_policy_must_score_the_tokens_of_the_policy(model: Path, tmp_path: Path) -> None:
    refuse_untrainable_model(run(model, reference=str(model)), model)
    smaller = new_folder(tmp_path / "smaller", rows=100)
    with pytest.raises(TurnwiseError, match=r"`model\.reference`: .* has 100 token ids, and the policy has 384"):
        refuse_untrainable_model(run(model, reference=str(smaller)), model)
    other = shutil.copytree(model, tmp_path / "other")
    new_tokenizer(styles.LLAMA, 128).save_pretrained(other)
    with pytest.raises(TurnwiseError, match=r"`model\.reference`: .* has another vocabulary than the policy"):
        refuse_untrainable_model(run(model, reference=str(other)), model)
    edit_tensors(other, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(TurnwiseError, match=r"other` does not hold the model of its config\.json: it lacks"):
        refuse_untrainable_model(run(model, reference=str(other)), model)


def test_a_policy_that_vllm_cannot_serve_is_refused_before_it_plays(tmp_path: Path) -> None:
    """Its engine dies at the first turn."""
    folder = new_folder(tmp_path / "small", head_dim=16)
    with pytest.raises(
        TurnwiseError, match=r"^`--policy`: vLLM cannot serve this model \(llama\): its attention heads"
    ):
        call(unplayable_model, run(folder), Command.EVAL, model=folder)


def test_a_model_that_reads_images_is_trained_with_what_reads_images(tmp_path: Path) -> None:
    vision = new_vision_model(tmp_path / "vision", ["a", "b"], hidden=64, heads=2, max_context=128)
    text = new_model(tmp_path / "text", ["a", "b"], hidden=32, heads=1)

    def config(**tables: Any) -> RunConfig:
        return parse_config({"name": "r", "environments": [{"id": "turnwise/TextSite-v0"}], **tables})

    horizon = {"max_context": 64}
    refuse_untrainable_model(config(horizon=horizon, model={"reference": str(vision)}), vision)
    with pytest.raises(TurnwiseError, match=r"`model\.reference`: .* reads text alone, and the policy reads images"):
        refuse_untrainable_model(config(horizon=horizon, model={"reference": str(text)}), vision)
    with pytest.raises(TurnwiseError, match="`advantage`: its token model reads text alone"):
        refuse_untrainable_model(config(horizon=horizon, advantage={"name": "prime"}), vision)


@pytest.mark.parametrize("family", ["idefics3", "mllama"])
@pytest.mark.parametrize(
    ("check", "command", "key"),
    [
        (untrainable_model, Command.TRAIN, "model.path"),
        (unplannable_model, Command.PLAN, "model.path"),
        (unplayable_model, Command.EVAL, "--policy"),
    ],
)
def test_another_family_that_reads_images_is_refused_at_the_start(
    tmp_path: Path, check: Any, command: Command, key: str, family: str
) -> None:
    AutoConfig.for_model(family).save_pretrained(tmp_path)
    with pytest.raises(TurnwiseError, match=rf"^`{key}`: .*`{family}`.* cannot be used: .*LLaVA \(`llava`\)"):
        call(check, run(tmp_path), command, model=tmp_path)


def test_a_vision_tower_is_frozen_only_where_there_is_one(model: Path) -> None:
    config = run(model)
    frozen = config.model_copy(update={"learner": config.learner.model_copy(update={"vision": "frozen"})})
    with pytest.raises(
        TurnwiseError, match=r'`learner\.vision` is "frozen", and the model \(`llama`\) reads text alone'
    ):
        refuse_untrainable_model(frozen, model)

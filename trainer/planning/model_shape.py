"""The shape of a decoder, from its configuration in `transformers`, and how many parameters it has."""

from dataclasses import dataclass
from typing import Any, Self

from ...errors import TurnwiseError
from .vision_memory import VisionShape

HEAD_NORMS = frozenset({"gemma3", "gemma3_text", "qwen3", "qwen3_moe", "qwen3_vl"})
"""Model types whose layers normalize the queries and keys of each head."""
WIDE_NORMS = frozenset({"olmo2"})
"""Model types whose layers normalize all queries, and all keys, together."""
FOUR_NORMS = frozenset({"gemma2", "gemma3", "gemma3_text"})
"""Model types with a norm before and after each half of a layer."""
REQUIRED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")


class UnknownShape(TurnwiseError):
    """The configuration of the model lacks a size."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a decoder with gated feed-forward layers, dense or with experts."""

    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    """Of a dense layer; 0 if every layer has experts."""
    vocabulary: int
    is_tied: bool
    """Whether the input and output embeddings are one matrix."""
    attention_biases: int = 0
    """Parameters of the biases of one attention layer."""
    experts: int = 0
    """Experts per layer; 0 without experts."""
    active_experts: int = 0
    """Experts that compute one token."""
    expert_intermediate: int = 0
    expert_biases: int = 0
    """Parameters of the biases of one expert and its share of the router."""
    has_windows: bool = False
    """Whether some layers attend to a window only: their key-value cache is smaller than that of the others."""
    vision: VisionShape | None = None
    """The part that reads images; None without one."""
    is_published: bool = False
    """Whether the sizes are those of ``known_models``, because neither a folder nor the hub has the configuration."""

    @classmethod
    def of(cls, config: Any) -> Self:
        """Return the shape in a configuration of `transformers`.

        Raises:
            UnknownShape: the configuration lacks a size.
        """
        whole, config = config, config.get_text_config()
        if missing := [name for name in REQUIRED if getattr(config, name, None) is None]:
            raise UnknownShape(
                f"the configuration of a `{config.model_type}` model has no `{missing[0]}`, so its memory cannot be "
                "planned: start the run without a plan, or choose a decoder such as Qwen3 or Llama"
            )
        hidden, heads = config.hidden_size, config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or hidden // heads
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
        experts = _first(config, "num_experts", "num_local_experts", "n_routed_experts")
        return cls(
            model_type=whole.model_type,
            hidden=hidden,
            layers=config.num_hidden_layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            intermediate=0 if experts else _first(config, "intermediate_size", "ffn_dim", "n_inner") or 4 * hidden,
            vocabulary=config.vocab_size,
            is_tied=bool(whole.tie_word_embeddings),
            attention_biases=_attention_biases(config, heads * head_dim, kv_heads * head_dim),
            experts=experts,
            active_experts=_first(config, "num_experts_per_tok", "top_k") if experts else 0,
            expert_intermediate=_first(config, "moe_intermediate_size", "intermediate_size") if experts else 0,
            expert_biases=_expert_biases(config) if experts else 0,
            has_windows=_has_windows(config),
            vision=VisionShape.of(whole),
        )

    @property
    def queries(self) -> int:
        """Width of the queries of one token, over all heads."""
        return self.heads * self.head_dim

    @property
    def keys(self) -> int:
        """Width of the keys of one token, over all heads; the values have the same."""
        return self.kv_heads * self.head_dim

    @property
    def normalizes_queries(self) -> bool:
        """Whether a layer normalizes queries and keys."""
        return self.model_type in HEAD_NORMS | WIDE_NORMS

    @property
    def linear_layers(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each linear layer of a decoder layer. Experts are no linear layers."""
        hidden = self.hidden
        found = [(hidden, self.queries), (hidden, self.keys), (hidden, self.keys), (self.queries, hidden)]
        if self.intermediate:
            found += [(hidden, self.intermediate), (hidden, self.intermediate), (self.intermediate, hidden)]
        return found

    @property
    def layer_parameters(self) -> int:
        """Parameters of one decoder layer."""
        linear = sum(inputs * outputs for inputs, outputs in self.linear_layers)
        expert = 3 * self.hidden * self.expert_intermediate + self.hidden + self.expert_biases
        return linear + self.attention_biases + self._norms + self.experts * expert

    @property
    def _norms(self) -> int:
        norms = (4 if self.model_type in FOUR_NORMS else 2) * self.hidden
        if self.model_type in HEAD_NORMS:
            norms += 2 * self.head_dim
        if self.model_type in WIDE_NORMS:
            norms += self.queries + self.keys
        return norms

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one embedding matrix."""
        return self.vocabulary * self.hidden

    @property
    def root_parameters(self) -> int:
        """Parameters outside of the decoder layers: embeddings, output head, last norm, vision tower."""
        vision = 0 if self.vision is None else self.vision.parameters
        return self.embedding_parameters * (1 if self.is_tied else 2) + self.hidden + vision

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return self.layers * self.layer_parameters + self.root_parameters


def _first(config: Any, *names: str) -> int:
    return next((int(value) for name in names if (value := getattr(config, name, None))), 0)


def _has_windows(config: Any) -> bool:
    layers = set(getattr(config, "layer_types", None) or ())
    return bool(layers - {"full_attention"}) if layers else getattr(config, "sliding_window", None) is not None


def _attention_biases(config: Any, queries: int, keys: int) -> int:
    if config.model_type in ("qwen2", "qwen2_5_vl_text"):
        return queries + 2 * keys
    biases: int = queries + 2 * keys + config.hidden_size if getattr(config, "attention_bias", False) else 0
    return biases + (config.num_attention_heads if config.model_type == "gpt_oss" else 0)


def _expert_biases(config: Any) -> int:
    if config.model_type != "gpt_oss":
        return 0
    return int(2 * config.intermediate_size + config.hidden_size + 1)

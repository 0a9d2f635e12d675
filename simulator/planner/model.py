"""A decoder transformer by its shapes: parameters, FLOPs, and the bytes that one layer saves for its backward."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.errors import UsageError


@dataclass(frozen=True)
class Transformer:
    """Grouped-query attention when `kv_heads` < `heads`; `gated` feed-forward (SwiGLU) has three matrices, else two.

    `fused_attention`: no score matrix is stored (flash attention). `fused_norms`: one kernel a norm. `dropout` keeps
    masks. `biases` adds a vector to each matrix and each norm; `learned_positions` counts positions with parameters.
    """

    name: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    d_ffn: int
    vocab: int
    seq_len: int
    gated: bool = False
    tied: bool = False
    fused_attention: bool = True
    fused_norms: bool = True
    dropout: bool = False
    biases: bool = False
    learned_positions: int = 0

    def __post_init__(self) -> None:
        if self.d_model % self.heads or self.heads % self.kv_heads:
            raise UsageError(
                f"{self.name}: {self.heads} heads must divide the width {self.d_model}, and {self.kv_heads} key-value "
                f"heads must divide the heads"
            )

    @property
    def kv_width(self) -> int:
        return self.d_model // self.heads * self.kv_heads

    @property
    def layer_matrices(self) -> tuple[tuple[str, int, int], ...]:
        """(name, inputs, outputs) of the matrices of one layer: how tensor parallelism cuts depends on the name."""
        d, f = self.d_model, self.d_ffn
        gate = (("gate", d, f),) if self.gated else ()
        return (("qkv", d, d + 2 * self.kv_width), ("out", d, d), *gate, ("up", d, f), ("down", f, d))

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: matrices, their biases, two norms."""
        matrices = sum(inputs * outputs for _, inputs, outputs in self.layer_matrices)
        biases = sum(outputs for *_, outputs in self.layer_matrices) + 2 * self.d_model if self.biases else 0
        return matrices + biases + 2 * self.d_model

    @property
    def embedding_parameters(self) -> int:
        return (self.vocab + self.learned_positions) * self.d_model

    @property
    def head_parameters(self) -> int:
        """The final norm, and the output matrix unless it is the embedding."""
        return self.d_model * (2 if self.biases else 1) + (0 if self.tied else self.vocab * self.d_model)

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters + self.embedding_parameters + self.head_parameters

    def model_flops_per_token(self) -> float:
        """Forward and backward of the matrices, the attention scores and the logits: what MFU counts.

        6 FLOPs a matrix parameter and token, 12 * layers * width * sequence for attention without halving it for the
        causal mask (Narayanan et al. 2021, arXiv:2104.04473; Chowdhery et al. 2022, arXiv:2204.02311).
        """
        matrices = sum(inputs * outputs for _, inputs, outputs in self.layer_matrices)
        return (
            6.0 * (self.layers * matrices + self.vocab * self.d_model)
            + 12.0 * self.layers * self.d_model * self.seq_len
        )


def llama(
    name: str, layers: int, d_model: int, heads: int, kv_heads: int, d_ffn: int, vocab: int = 32000
) -> Transformer:
    return Transformer(name, layers, d_model, heads, kv_heads, d_ffn, vocab, seq_len=2048, gated=True)


# Touvron et al. 2023, arXiv:2302.13971 and arXiv:2307.09288.
MODELS = {
    model.name: model
    for model in (
        llama("1b", 22, 2048, 32, 4, 5632),  # TinyLlama's shape
        llama("7b", 32, 4096, 32, 32, 11008),
        llama("13b", 40, 5120, 40, 40, 13824),
        llama("30b", 60, 6656, 52, 52, 17920),
        llama("65b", 80, 8192, 64, 64, 22016),
        llama("70b", 80, 8192, 64, 8, 28672),
    )
}


def get_model(model: str | Transformer, seq_len: int | None = None) -> Transformer:
    """A model by name, or the model itself, with another sequence length when given. Raises `UsageError`."""
    if isinstance(model, str):
        if model not in MODELS:
            raise UsageError(f"unknown model {model!r}: use one of {', '.join(MODELS)}, or a planner.Transformer")
        model = MODELS[model]
    return replace(model, seq_len=seq_len) if seq_len else model

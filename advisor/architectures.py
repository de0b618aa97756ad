"""Published transformer architectures, and which of them stands for a model when only its size is known (pure).

The figures are those of the models' own papers and configuration files; docs/explanation/memory.md names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

HEAD_SIZE = 128
"""Size of an attention head where only the hidden size is given: that of most models from 7 billion parameters on."""
VOCABULARY = 50_272
"""Tokens of the vocabulary where it is not given: that of OPT."""
NEAR = 1.15
"""A named family must have a member whose size differs by no more than this factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The shape of a decoder-only transformer. `parameters` is its published count, 0 where it is made up of parts."""

    name: str
    family: str = ""
    parameters: int = 0
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    gated: bool
    """Whether the feed-forward part has a gate (SwiGLU), and so three matrices instead of two."""
    vocabulary: int
    tied: bool
    """Whether input and output share one embedding."""

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads

    @property
    def embeddings(self) -> int:
        """Parameters of the embedding and the output layer, which quantisation leaves alone."""
        return self.vocabulary * self.hidden * (1 if self.tied else 2)

    @property
    def matrix_sides(self) -> int:
        """Rows and columns of all weight matrices together: what a factored second moment keeps."""
        kv = self.kv_heads * self.head_size
        attention = 2 * (self.hidden + self.hidden) + 2 * (self.hidden + kv)
        feed_forward = (3 if self.gated else 2) * (self.hidden + self.feed_forward)
        ends = (1 if self.tied else 2) * (self.vocabulary + self.hidden)
        return self.layers * (attention + feed_forward) + ends


def _opt(name: str, parameters: int, layers: int, hidden: int, heads: int) -> Architecture:
    """GPT's shape: every head with its own keys and values, a feed-forward part four times as wide, no gate."""
    return Architecture(
        name=name,
        family="opt",
        parameters=parameters,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        feed_forward=4 * hidden,
        gated=False,
        vocabulary=VOCABULARY,
        tied=True,
    )


def _gated(
    name: str, family: str, parameters: int, sizes: Sequence[int], *, tied: bool = False
) -> Architecture:
    """`sizes`: layers, hidden, heads, kv heads, feed-forward, vocabulary."""
    layers, hidden, heads, kv_heads, feed_forward, vocabulary = sizes
    return Architecture(
        name=name,
        family=family,
        parameters=parameters,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        feed_forward=feed_forward,
        gated=True,
        vocabulary=vocabulary,
        tied=tied,
    )


# OPT (Zhang et al. 2022, table 1) up to 175 billion, Megatron-LM (Narayanan et al. 2021, table 1) above. Each has no
# fewer layers and no smaller hidden size than the one before it, so that a larger model never needs less.
BY_SIZE: tuple[Architecture, ...] = (
    _opt("OPT-125M", 125_239_296, 12, 768, 12),
    _opt("OPT-1.3B", 1_315_758_080, 24, 2048, 32),
    _opt("OPT-2.7B", 2_651_596_800, 32, 2560, 32),
    _opt("OPT-6.7B", 6_658_473_984, 32, 4096, 32),
    _opt("OPT-13B", 12_853_473_280, 40, 5120, 40),
    _opt("OPT-30B", 29_974_540_288, 48, 7168, 56),
    _opt("OPT-66B", 65_719_701_504, 64, 9216, 72),
    _opt("OPT-175B", 174_604_468_224, 96, 12288, 96),
    _opt("Megatron 530B", 529_600_000_000, 105, 20480, 128),
    _opt("Megatron 1T", 1_008_000_000_000, 128, 25600, 160),
)

NAMED: tuple[Architecture, ...] = (
    *(architecture for architecture in BY_SIZE if architecture.name.startswith("OPT")),
    _gated("Llama 2 7B", "llama 2", 6_738_415_616, (32, 4096, 32, 32, 11008, 32000)),
    _gated("Llama 2 13B", "llama 2", 13_015_864_320, (40, 5120, 40, 40, 13824, 32000)),
    _gated("Llama 2 70B", "llama 2", 68_976_648_192, (80, 8192, 64, 8, 28672, 32000)),
    _gated("Llama 3.2 1B", "llama 3", 1_235_814_400, (16, 2048, 32, 8, 8192, 128256), tied=True),
    _gated("Llama 3.2 3B", "llama 3", 3_212_749_824, (28, 3072, 24, 8, 8192, 128256), tied=True),
    _gated("Llama 3.1 8B", "llama 3", 8_030_261_248, (32, 4096, 32, 8, 14336, 128256)),
    _gated("Llama 3.1 70B", "llama 3", 70_553_706_496, (80, 8192, 64, 8, 28672, 128256)),
    _gated("Llama 3.1 405B", "llama 3", 405_853_388_800, (126, 16384, 128, 8, 53248, 128256)),
    _gated("Mistral 7B", "mistral", 7_241_732_096, (32, 4096, 32, 8, 14336, 32000)),
    _gated("Qwen2.5 0.5B", "qwen", 494_032_768, (24, 896, 14, 2, 4864, 151936), tied=True),
    _gated("Qwen2.5 1.5B", "qwen", 1_543_714_304, (28, 1536, 12, 2, 8960, 151936), tied=True),
    _gated("Qwen2.5 3B", "qwen", 3_085_938_688, (36, 2048, 16, 2, 11008, 151936), tied=True),
    _gated("Qwen2.5 7B", "qwen", 7_615_616_512, (28, 3584, 28, 4, 18944, 152064)),
    _gated("Qwen2.5 14B", "qwen", 14_770_033_664, (48, 5120, 40, 8, 13824, 152064)),
    _gated("Qwen2.5 32B", "qwen", 32_763_876_352, (64, 5120, 40, 8, 27648, 152064)),
    _gated("Qwen2.5 72B", "qwen", 72_706_203_648, (80, 8192, 64, 8, 29568, 152064)),
)
FAMILIES = ("llama", "llama 2", "llama 3", "mistral", "opt", "qwen")


def by_size(parameters: int) -> Architecture:
    """The architecture that a model of that many parameters is taken to have: the nearest of `BY_SIZE` by ratio."""
    return _nearest(parameters, BY_SIZE)


def of_family(family: str, parameters: int) -> Architecture | None:
    """The member of that size; None where none is near. `llama` means all its versions."""
    nearest = _nearest(parameters, members(family))
    ratio = max(parameters, nearest.parameters) / min(parameters, nearest.parameters)
    return nearest if ratio <= NEAR else None


def members(family: str) -> list[Architecture]:
    """The architectures published under that name, one of `FAMILIES`."""
    return [
        architecture
        for architecture in NAMED
        if architecture.family == family or architecture.family.split()[0] == family
    ]


def of_shape(*, layers: int, hidden: int) -> Architecture:
    """GPT's shape with these sizes; its heads have 128 channels where that divides the hidden size."""
    heads = hidden // HEAD_SIZE if hidden % HEAD_SIZE == 0 else 1
    return _opt(f"{layers} layers of {hidden}", 0, layers, hidden, heads)


def parameters_of(shape: Architecture) -> int:
    """Parameters of GPT's shape: for each layer twelve times hidden², and the embedding."""
    return 12 * shape.layers * shape.hidden**2 + shape.vocabulary * shape.hidden


def _nearest(parameters: int, known: Sequence[Architecture]) -> Architecture:
    # The larger one of two that are equally near.
    return min(
        known,
        key=lambda architecture: (abs(log(architecture.parameters / parameters)), -architecture.parameters),
    )

"""How much GPU memory a model needs on each card, term by term (pure).

Every formula, with where it comes from and what it leaves out, is in docs/explanation/memory.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from advisor.demand import HALVES, Demand
from advisor.model_text import Optimizer, Precision, Sharding

GIB = 2**30
CONTEXT_BYTES = GIB
"""For the CUDA context, kernels, and the work spaces of cuBLAS and NCCL."""
GATHERED_LAYERS = 2
"""Layers whose weights are whole on each card under full sharding: the one in use and the one fetched ahead."""
# Values and 1-byte masks that one layer keeps, in units of the hidden size per token: two norms, attention, and the
# input of the feed-forward part; what is inside that comes on top.
_NORMS_AND_ATTENTION, _FEED_FORWARD_INPUT, _MASKS = 7, 1, 2
# Of them those that tensor parallelism leaves whole on each card: inputs of norms, of attention, of the feed-forward.
_UNDIVIDED = 4

# AWQ and GPTQ with groups of 128: four bits, and for each group a scale in 16 bits and a zero point in four.
_INT4 = Fraction(1, 2) + Fraction(2, 128) + Fraction(1, 2 * 128)
WEIGHT_BYTES: Mapping[Precision, Fraction] = MappingProxyType({
    Precision.FP32: Fraction(4),
    Precision.TF32: Fraction(4),
    Precision.BF16: Fraction(2),
    Precision.FP16: Fraction(2),
    Precision.FP8: Fraction(1),
    Precision.INT8: Fraction(1),
    Precision.INT4: _INT4,
})  # fmt: skip
QUANTISED = frozenset({Precision.FP8, Precision.INT8, Precision.INT4})
_STATES: Mapping[Optimizer, int] = MappingProxyType(
    {Optimizer.NONE: 0, Optimizer.SGD: 0, Optimizer.MOMENTUM: 1, Optimizer.ADAM: 2, Optimizer.ADAMW: 2}
)
# Blocks of 256 values, each with a scale in fp32, of both states.
_ADAM_8BIT = 2 * (1 + Fraction(4, 256))
_PARTED = (Sharding.NONE, Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.FULL)

SOURCES: Mapping[str, tuple[str, str]] = MappingProxyType({
    "zero": ("Rajbhandari et al. 2020, ZeRO, section 3", "https://arxiv.org/abs/1910.02054"),
    "fsdp": ("Zhao et al. 2023, PyTorch FSDP, section 3", "https://arxiv.org/abs/2304.11277"),
    "activations": (
        "Korthikanti et al. 2022, Reducing Activation Recomputation, section 4",
        "https://arxiv.org/abs/2205.05198",
    ),
    "kv": ("Kwon et al. 2023, PagedAttention, section 2", "https://arxiv.org/abs/2309.06180"),
    "awq": ("Lin et al. 2023, AWQ, section 4", "https://arxiv.org/abs/2306.00978"),
    "int8": ("Dettmers et al. 2022, LLM.int8(), section 3", "https://arxiv.org/abs/2208.07339"),
    "adam-8bit": ("Dettmers et al. 2021, 8-bit Optimizers, section 2", "https://arxiv.org/abs/2110.02861"),
    "adafactor": ("Shazeer and Stern 2018, Adafactor, section 3", "https://arxiv.org/abs/1804.04235"),
    "context": (
        "Rule of this portal; Transformers measures 1.3 GB for kernels alone",
        "https://huggingface.co/docs/transformers/model_memory_anatomy",
    ),
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One line of the sum, for one card. `figures` is `formula` with its numbers; `source` a key of `SOURCES`."""

    name: str
    title: str
    bytes: int
    formula: str
    figures: str
    source: str

    @property
    def reference(self) -> str:
        """Where the formula comes from."""
        return SOURCES[self.source][0]

    @property
    def reference_url(self) -> str:
        """The address of that."""
        return SOURCES[self.source][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySum:
    """What each of `cards` cards holds."""

    cards: int
    terms: tuple[Term, ...]

    @property
    def total_bytes(self) -> int:
        return sum(term.bytes for term in self.terms)


def memory_sum(demand: Demand, *, cards: int = 1) -> MemorySum:
    """The sum for each of `cards` cards: data-parallel ones of training, tensor-parallel ones of inference.

    Terms that need nothing are left out.
    """
    terms = _training_terms(demand, cards) if demand.trains else _inference_terms(demand, cards)
    return MemorySum(cards=cards, terms=tuple(term for term in (*terms, _context()) if term.bytes))


def compute_bytes(precision: Precision) -> int:
    """Bytes of a value that is computed with: activations, gradients, keys and values."""
    return 4 if precision in {Precision.FP32, Precision.TF32} else 2


def _training_terms(demand: Demand, cards: int) -> list[Term]:
    width = compute_bytes(demand.precision)
    stage = _PARTED.index(demand.sharding)
    parts = [cards if stage >= least else 1 for least in (1, 2, 3)]
    terms = [_per_parameter("weights", "Weights", width, demand, parts[2])]
    if parts[2] > 1:
        terms.append(_gathered(demand, width))
    terms.append(_per_parameter("gradients", "Gradients", width, demand, parts[1]))
    if demand.master_weights:
        terms.append(_per_parameter("master_weights", "Master weights in fp32", 4, demand, parts[0]))
    return [*terms, _optimizer(demand, parts[0]), _activations(demand, width), _logits(demand)]


def _per_parameter(name: str, title: str, width: int, demand: Demand, parts: int) -> Term:
    return Term(
        name=name,
        title=title,
        bytes=_up(Fraction(demand.parameters * width, parts)),
        formula=f"parameters × {width} B{_over('cards', parts)}",
        figures=f"{demand.parameters:,} × {width}{_over(parts, parts)}",
        source="zero",
    )


def _gathered(demand: Demand, width: int) -> Term:
    layers = min(GATHERED_LAYERS, demand.shape.layers)
    return Term(
        name="gathered_weights",
        title="Weights gathered for the layers in use",
        bytes=_up(Fraction(layers * demand.parameters * width, demand.shape.layers)),
        formula=f"{layers} × parameters ÷ layers × {width} B",
        figures=f"{layers} × {demand.parameters:,} ÷ {demand.shape.layers} × {width}",
        source="fsdp",
    )


def _optimizer(demand: Demand, parts: int) -> Term:
    count, kind = demand.parameters, demand.optimizer
    over = _over("cards", parts)
    if kind is Optimizer.ADAFACTOR:
        sides = demand.shape.matrix_sides
        size, source = Fraction(4 * sides), "adafactor"
        formula, figures = f"4 B × rows and columns of all matrices{over}", f"4 × {sides:,}"
    elif kind is Optimizer.ADAM_8BIT:
        size, source = count * _ADAM_8BIT, "adam-8bit"
        formula, figures = f"parameters × 2 × (1 B + 4 B ÷ 256){over}", f"{count:,} × 2 × (1 + 4 ÷ 256)"
    else:
        states = _STATES[kind]
        # Without weights in fp32 the states have the width of the weights that they belong to.
        width = 2 if demand.precision in HALVES and not demand.master_weights else 4
        size, source = Fraction(count * states * width), "zero"
        formula = f"parameters × {states} × {width} B{over}"
        figures = f"{count:,} × {states} × {width}"
    return Term(
        name="optimizer",
        title=f"Optimizer state ({kind})",
        bytes=_up(size / parts),
        formula=formula,
        figures=f"{figures}{_over(parts, parts)}",
        source=source,
    )


def _activations(demand: Demand, width: int) -> Term:
    """The activations of all layers, or with checkpointing the inputs of all and the inside of one."""
    shape, tokens = demand.shape, demand.sequence_length * demand.batch_size
    values = _values(demand)
    layer = tokens * shape.hidden * (width * values + _MASKS)
    formula = f"tokens × hidden × ({width} B × {_plain(values)} + {_MASKS} B)"
    figures = f"{tokens:,} × {shape.hidden:,} × ({width} × {_plain(values)} + {_MASKS})"
    if not demand.fused_attention:
        scores = shape.heads * demand.sequence_length * tokens * (2 * width + 1)
        layer += scores
        formula += f" + heads × length × tokens × {2 * width + 1} B"
        figures += f" + {shape.heads} × {demand.sequence_length:,} × {tokens:,} × {2 * width + 1}"
    if demand.gradient_checkpointing:
        size = shape.layers * width * tokens * shape.hidden + layer
        formula = f"layers × {width} B × tokens × hidden + {formula}"
        figures = f"{shape.layers} × {width} × {tokens:,} × {shape.hidden:,} + {figures}"
    else:
        size = shape.layers * layer
        formula, figures = f"layers × ({formula})", f"{shape.layers} × ({figures})"
    return Term(
        name="activations",
        title="Activations",
        bytes=_up(size),
        formula=formula,
        figures=figures,
        source="activations",
    )


def _values(demand: Demand) -> Fraction:
    """Values that one layer keeps for each token, in units of the hidden size: 16 of GPT's shape."""
    shape = demand.shape
    inside = Fraction((4 if shape.gated else 2) * shape.feed_forward, shape.hidden)
    return _NORMS_AND_ATTENTION + _FEED_FORWARD_INPUT + inside


def _logits(demand: Demand) -> Term:
    """The scores of the vocabulary and their gradient, in fp32, and the input of the output layer and of its norm."""
    shape, tokens = demand.shape, demand.sequence_length * demand.batch_size
    return Term(
        name="logits",
        title="Logits and their gradient",
        bytes=tokens * (8 * shape.vocabulary + 4 * shape.hidden),
        formula="tokens × (8 B × vocabulary + 4 B × hidden)",
        figures=f"{tokens:,} × (8 × {shape.vocabulary:,} + 4 × {shape.hidden:,})",
        source="activations",
    )


def _inference_terms(demand: Demand, cards: int) -> list[Term]:
    return [_served_weights(demand, cards), _kv_cache(demand, cards), _prompt(demand, cards)]


def _served_weights(demand: Demand, cards: int) -> Term:
    width, count = WEIGHT_BYTES[demand.precision], demand.parameters
    if demand.precision not in QUANTISED:
        return Term(
            name="weights",
            title="Weights",
            bytes=_up(count * width / cards),
            formula=f"parameters × {width} B{_over('cards', cards)}",
            figures=f"{count:,} × {width}{_over(cards, cards)}",
            source="zero",
        )
    kept = min(count, demand.shape.embeddings)
    width_words = "(½ B + 2.5 B ÷ 128)" if demand.precision is Precision.INT4 else "1 B"
    number = "(0.5 + 2.5 ÷ 128)" if demand.precision is Precision.INT4 else "1"
    return Term(
        name="weights",
        title="Weights",
        bytes=_up(((count - kept) * width + 2 * kept) / cards),
        formula=f"((parameters − embeddings) × {width_words} + embeddings × 2 B){_over('cards', cards)}",
        figures=f"({count - kept:,} × {number} + {kept:,} × 2){_over(cards, cards)}",
        source="awq" if demand.precision is Precision.INT4 else "int8",
    )


def _kv_cache(demand: Demand, cards: int) -> Term:
    """Keys and values of all tokens of all sequences; a card holds whole heads of them, at least one."""
    shape, width = demand.shape, compute_bytes(demand.precision)
    heads, tokens = -(-shape.kv_heads // cards), demand.sequence_length * demand.batch_size
    return Term(
        name="kv_cache",
        title="Cache of keys and values",
        bytes=2 * shape.layers * heads * shape.head_size * width * tokens,
        formula=f"2 × layers × heads of keys{_over('cards', cards)} × head size × {width} B × tokens",
        figures=f"2 × {shape.layers} × {heads} × {shape.head_size} × {width} × {tokens:,}",
        source="kv",
    )


def _prompt(demand: Demand, cards: int) -> Term:
    """One layer's values while one prompt is read, and the scores of the vocabulary for each sequence."""
    shape, width, length = demand.shape, compute_bytes(demand.precision), demand.sequence_length
    values = _UNDIVIDED + (_values(demand) - _UNDIVIDED) / cards
    size = length * shape.hidden * width * values
    formula = f"length × hidden × {width} B × {_plain(values)}"
    figures = f"{length:,} × {shape.hidden:,} × {width} × {_plain(values)}"
    if not demand.fused_attention:
        size += Fraction(shape.heads * length**2 * 2 * width, cards)
        formula += f" + heads × length² × {2 * width} B{_over('cards', cards)}"
        figures += f" + {shape.heads} × {length:,}² × {2 * width}{_over(cards, cards)}"
    return Term(
        name="activations",
        title="Activations of a prompt, and logits",
        bytes=_up(size + 4 * demand.batch_size * shape.vocabulary),
        formula=f"{formula} + 4 B × sequences × vocabulary",
        figures=f"{figures} + 4 × {demand.batch_size} × {shape.vocabulary:,}",
        source="activations",
    )


def _context() -> Term:
    return Term(
        name="context",
        title="CUDA context, kernels, work spaces",
        bytes=CONTEXT_BYTES,
        formula="1 GiB",
        figures="1 GiB",
        source="context",
    )


def _up(size: Fraction | int) -> int:
    return -(-Fraction(size).numerator // Fraction(size).denominator)


def _over(what: str | int, parts: int) -> str:
    return f" ÷ {what}" if parts > 1 else ""


def _plain(value: Fraction) -> str:
    return f"{float(value):.4g}"

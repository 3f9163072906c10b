"""How a model is launched, as far as memory goes: the numbers of a serve command. Pure."""

from dataclasses import dataclass, field
from typing import Literal

from packaging.version import InvalidVersion, Version

from gb10.models.memory.weights.weight import Ranks

Engine = Literal["vllm", "sglang", "trtllm", "llama-cpp"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Drafts:
    """Speculative decoding: ``tokens`` are proposed at once. ``own`` is the model's own layer; else ``model`` names
    a model of its own, whose ``size`` in bytes may be unknown; 0 where drafts are taken from the text. ``reads`` are
    the served model's layers whose states go into the drafts."""

    tokens: int
    own: bool
    model: str = ""
    size: int | None = None
    reads: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class HostTier:
    """A tier of the KV cache in host memory, which on a GB10 is the node's one memory.

    ``size`` is bytes of one pool on a node. Without it the tier is ``ratio`` times what the GPU's pools take; and with
    ``share``, no more than this share of what is free after the load and 10 GiB for the system.
    """

    option: str
    size: int | None = None
    ratio: float = 0.0
    share: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One GPU a node. ``fraction`` is vLLM's share of all memory or SGLang's static share of what is free.

    ``cache_size`` (bytes) and ``cache_tokens`` set the cache by hand. ``length`` is the longest request, ``requests``
    run at the same time, ``batched`` tokens are computed in one step.
    """

    engine: Engine
    release: str = ""
    ranks: Ranks = field(default_factory=Ranks)
    replicas: int = 1
    fraction: float | None = None
    cache_size: int | None = None
    cache_tokens: int | None = None
    length: int | None = None
    requests: int | None = None
    batched: int | None = None
    cache_type: str = "auto"
    graphs: bool = True
    whole_graphs: bool = True
    """vLLM: graphs of whole steps, not of pieces alone."""
    graph_batch: int | None = None
    states: int | None = None
    """SGLang: slots for the states of a hybrid model."""
    state_buffers: bool = True
    """SGLang: a request keeps states besides its own for what runs ahead (--mamba-radix-cache-strategy)."""
    drafts: Drafts | None = None
    loader: str = "auto"
    loader_limit: int | None = None
    """Bytes that a streaming loader may hold; files that are read at a time for others."""
    mapped: bool = True
    """Files are mapped, not read whole."""
    prefix_caching: bool | None = None
    """None where no option says it: the engine decides by the model."""
    scheduled_ahead: bool = True
    """vLLM: the next step is scheduled while one runs."""
    block: int | None = None
    """vLLM: tokens of a page of the cache."""
    experts: str = "auto"
    """vLLM: --moe-backend."""
    text_only: bool = False
    """The encoder for pictures is not loaded."""
    pictures: bool = True
    """Requests may have pictures: the encoder is tried at the start."""
    table_in_file: bool = False
    """A table of embeddings stays in a file."""
    fork: bool = False
    """The command has options that the release lacks: what else this engine does is not known."""
    sequence_ranks: int = 1
    """Decode context parallelism: ranks among the tensor ranks that divide the tokens of the cache."""
    prefill_ranks: int = 1
    """vLLM: prefill context parallelism, as many times the ranks, each with the whole cache."""
    host_tier: HostTier | None = None
    offloaded: int = 0
    """Bytes of weights that the engine keeps in host memory."""
    sleeps: bool = False
    """The server can release its memory and keep the weights in host memory."""
    picture_cache: float | None = None
    """vLLM: GiB of prepared pictures that a process keeps; None for the engine's default."""
    quantized: str = ""
    """The value of --quantization; files that are quantized stay as they are."""
    state_type: str = "auto"
    """The type of the states of a hybrid model."""
    window_share: float | None = None
    """SGLang: tokens of layers with a window, as a share of those of other layers."""
    state_share: float | None = None
    """SGLang: memory of states as a share of that of the KV cache."""
    indexer_logits: int | None = None
    """vLLM: MiB of VLLM_SPARSE_INDEXER_MAX_LOGITS_MB."""
    jobs: int | None = None
    """MAX_JOBS: compilers that run at once; None for one for each CPU."""
    own_image: bool = False
    """The image holds compiled kernels."""

    def may_be_from(self, first: Version) -> bool:
        """Whether the engine's release is this one or later; so is one that is not known."""
        try:
            return Version(self.release) >= first
        except InvalidVersion:
            return True

    @property
    def nodes(self) -> int:
        """Nodes of the whole launch."""
        return self.ranks.tensor * self.ranks.stages * self.prefill_ranks * self.replicas

"""The launch of a GGUF model by llama.cpp, of which gb10 builds no image. Each choice has its reason. Pure."""

from collections.abc import Iterator
from typing import Final

from gb10.errors import UsageError
from gb10.models.choose.choosing import FULL, PURPOSES, STEP, Choice, ModelFiles, Purpose, Reason
from gb10.models.memory.engines.budget import Machine, gib
from gb10.models.memory.estimating import Estimate, estimate
from gb10.models.memory.gguf import GgufFile
from gb10.models.memory.launch import Launch

MOST_REQUESTS: Final = 4
UBATCH: Final = 2048
WRITES, LAST, RANK = 0, 3, 4
"""llama.cpp's pooling types of a model that writes, that takes a text's last token, and that ranks texts."""
WITHOUT_MMAP: Final = (("LLAMA_ARG_NO_MMAP", "1"), ("LLAMA_ARG_LOAD_MODE", "none"))
"""What older releases read, and what newer ones do: these refuse --no-mmap, and each ignores the other's variable."""
DOWNLOADS: Final = (("LLAMA_CACHE", "/var/cache/gb10/llama.cpp"),)
"""Where models of the Hub stay when the container is gone: in the volume of the cache."""
BENCHES: Final = "ggml-org/llama.cpp measured this machine so (benches/dgx-spark)"


def choose_gguf(files: ModelFiles, header: GgufFile, machine: Machine, *, purpose: Purpose = "chat") -> Choice:
    """The launch on one node, with the most requests and the longest context that fit. Raises UsageError."""
    wanted = PURPOSES[purpose]
    longest = min(header.longest or wanted.most, wanted.most)
    most = min(wanted.requests, MOST_REQUESTS)
    whole = header.pooling not in (WRITES, LAST)
    found = next(_fitting(files, machine, longest, min(wanted.least, longest), most, whole=whole), None)
    if found is None:
        nearest = estimate(files.sizes, _launch(1, min(wanted.least, longest), whole=whole), machine)
        raise UsageError(
            f"{files.name} does not fit on one node: its weights take {gib(files.sizes.total)}",
            hint=nearest.remedies[-1] if nearest.remedies else "choose a file with fewer bits",
        )
    pools = header.pooling > 0
    options = (
        *("--flash-attn", "on"),
        *(("--jinja",) if header.template and not pools else ()),
        *((("--reranking" if header.pooling == RANK else "--embeddings"),) if pools else ()),
    )
    return Choice(
        files=files,
        engine="llama-cpp",
        container="",
        launch=found.launch,
        found=found,
        pools=pools,
        options=options,
        environment=(*WITHOUT_MMAP, *(() if files.name.startswith("/") else DOWNLOADS)),
        reasons=tuple(_reasons(files, header, found, purpose)),
    )


def _launch(requests: int, length: int, *, whole: bool) -> Launch:
    """llama.cpp reserves the cache of all requests at its start: its length is of them together.

    ``whole``: it refuses a text that is longer than one step (can_split of tools/server/server-context.cpp).
    """
    batched = max(UBATCH, length) if whole else UBATCH
    return Launch(engine="llama-cpp", requests=requests, length=requests * length, batched=batched, mapped=False)


def _fitting(
    files: ModelFiles, machine: Machine, longest: int, least: int, most: int, *, whole: bool
) -> Iterator[Estimate]:
    """The launches that fit: all requests at the longest context that leaves the node its reserve, then fewer."""
    for requests in dict.fromkeys((most, max(most // 2, 1), 1)):
        low, high = least // STEP - 1, max(longest // STEP, 1)
        best: Estimate | None = None
        while low < high:
            middle = (low + high + 1) // 2
            tried = estimate(files.sizes, _launch(requests, min(middle * STEP, longest), whole=whole), machine)
            if tried.fits and not any(one.code in FULL for budget in tried.budgets for one in budget.problems):
                low, best = middle, tried
            else:
                high = middle - 1
        if best is not None:
            yield best


def _reasons(files: ModelFiles, header: GgufFile, found: Estimate, purpose: Purpose) -> Iterator[Reason]:
    launch = found.launch
    requests = launch.requests or 1
    limit = f"the model's own limit is {header.longest}" if header.longest else "the model names no limit"
    yield Reason(
        what="engine",
        value="llama.cpp",
        why=f"it reads GGUF files ({header.architecture}); gb10 builds no image of it: --image",
    )
    yield Reason(
        what="ctx_size",
        value=str(launch.length),
        why=f"{(launch.length or 0) // requests} tokens for each request; {limit}; llama.cpp reserves all of it at its "
        f"start: {gib(files.sizes.cache_on(launch, 0).of_request(launch.length or 0))} in FP16, at most",
    )
    yield Reason(what="max_num_seqs", value=str(requests), why=f"{purpose}: the context is divided between them")
    yield Reason(what="n_gpu_layers", value="999", why="all layers on the GPU, which shares its memory with the CPU")
    why = f"tokens of a prompt in one step; {BENCHES}"
    if header.pooling not in (WRITES, LAST):
        why = "a text is computed in one step: llama.cpp refuses a longer one, so --batch-size is as large"
    yield Reason(what="ubatch_size", value=str(launch.batched), why=why)
    yield Reason(what="flash attention", value="on", why=BENCHES)
    yield Reason(
        what="mmap",
        value="off",
        why="the file is read once, in order: 224 s of a load became 22 s without mmap, by a public "
        "report. By variables: new releases have --load-mode none in place of --no-mmap",
    )
    if not files.name.startswith("/"):
        why = "llama.cpp downloads it (-hf), the newest commit: it takes no revision"
        yield Reason(what="weights", value=files.name, why=why)
    if header.pooling:
        what = "ranks texts: /v1/rerank" if header.pooling == RANK else "embeds texts: /v1/embeddings"
        yield Reason(what="pooling", value=str(header.pooling), why=f"the model {what}")
    elif header.template:
        yield Reason(what="jinja", value="on", why="the file has a chat template, which also writes calls of tools")
    else:
        why = "the file has no chat template: llama.cpp takes its own default, so answers may be odd"
        yield Reason(what="chat template", value="none", why=why)

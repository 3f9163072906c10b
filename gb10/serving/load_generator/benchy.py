"""llama-benchy: installed by hash into the store, run over a book that is not downloaded, its progress handed on."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uv

from gb10.core.fetch import ca_bundle
from gb10.core.files import digest, read_plain_file
from gb10.core.host import Host
from gb10.core.installation import ROOT
from gb10.core.proc import CommandFailedError, capture, last_lines, stream
from gb10.core.store import Store, file_sha256
from gb10.errors import FetchError, UsageError, VerifyError
from gb10.serving.load_generator.endpoint import Endpoint
from gb10.sources.index.pip_settings import read_settings, uv_index_env

LOCK: Final = ROOT / "recipes/load/llama-benchy.lock"
VERSION: Final = "0.4.0"
BOOK_URL: Final = "https://www.gutenberg.org/files/1661/1661-0.txt"
"""The book that llama-benchy takes by default; nothing is fetched from there."""
KEY: Final = "GB10_LOAD_KEY"
IDLE_S: Final = 2
"""An idle connection is not used again after this time: vLLM's, SGLang's and llama.cpp's servers close it after 5 s.

llama-benchy keeps one for 600 s. It cuts prompts from its book meanwhile and does not see that the server closed it."""
CONNECTIONS: Final = f"""\
import aiohttp
connector = aiohttp.TCPConnector
aiohttp.TCPConnector = lambda **options: connector(**{{**options, "keepalive_timeout": {IDLE_S}}})
"""
START: Final = f"""\
import json, os, sys
sys.path.insert(0, sys.argv.pop(1))
sys.argv += ["--api-key", os.environ.pop("{KEY}")]
{CONNECTIONS}
from llama_benchy.__main__ import main
from llama_benchy.config import BenchmarkConfig
BenchmarkConfig._parse_extra_body = staticmethod(lambda texts: json.loads(texts[0]) if texts else {{}})
main()
"""
"""Its key is an option: handed over here, no other user sees it in the list of processes.

Its --extra-body is cut at each comma: an object of two fields could not be a value. Here it takes one JSON object."""
SMALLEST_BOOK: Final = 20_000
LARGEST_BOOK: Final = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The text that prompts are cut from."""

    text: str
    name: str

    @property
    def sha256(self) -> str:
        """Of its UTF-8 bytes."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One point of a benchmark: tokens of prompt and answer, requests at once, runs."""

    prompt: int
    answer: int
    depth: int
    concurrency: int
    runs: int
    """Of all, warm-up too."""
    exact: bool = False
    extra: Mapping[str, object]


def install(host: Host) -> Path:
    """The folder with llama-benchy and what it imports; made once. Raises FetchError, UsageError."""
    key = digest([file_sha256(LOCK), sys.implementation.cache_tag])

    def make(into: Path) -> None:
        host.reporter.say(f"installing llama-benchy {VERSION}, once (45 MB)")
        url = read_settings(host.env).url
        argv = [uv.find_uv_bin(), "pip", "install", "--quiet", "--no-config", "--python", sys.executable]
        argv += ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(into / "site")]
        try:
            capture([*argv, "--requirement", str(LOCK)], env=uv_index_env(host.store, host.env, url))
        except CommandFailedError as error:
            raise FetchError(
                f"cannot install llama-benchy {VERSION}",
                where=last_lines(error.tail, 6),
                hint="it comes from the package index that pip uses: check pip's configuration, then run again",
            ) from error

    return host.store.ensure("load", key, make) / "site"


def find_book(path: Path | None, env: Mapping[str, str]) -> Book:
    """The user's book, else the one that llama-benchy fetched earlier, else our own pages. Raises UsageError."""
    name = hashlib.md5(BOOK_URL.encode(), usedforsecurity=False).hexdigest()
    fetched = Path(env.get("HOME") or "/nonexistent") / f".cache/llama-benchy/{name}.txt"
    if path is None and not fetched.is_file():
        pages = sorted((ROOT / "docs").glob("*.md"))
        return Book(text="\n".join(page.read_text(encoding="utf-8") for page in pages), name="gb10's documentation")
    chosen = path or fetched
    try:
        text = read_plain_file(chosen, LARGEST_BOOK, "--book FILE: text in UTF-8").decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"cannot read the book {chosen}", where=str(error), hint="--book FILE: text in UTF-8"
        ) from error
    if len(text) < SMALLEST_BOOK:
        raise UsageError(f"the book has {len(text):,} characters", hint=f"it needs {SMALLEST_BOOK:,} at least")
    return Book(text=text, name=str(chosen))


def find_tokenizer(path: Path | None, model: str, env: Mapping[str, str]) -> Path:
    """The user's tokenizer, else the one of the model in the Hugging Face cache of this machine. Raises UsageError."""
    home = Path(env.get("HF_HOME") or Path(env.get("HOME") or "/nonexistent") / ".cache/huggingface")
    cached = sorted((home / "hub" / f"models--{model.replace('/', '--')}").glob("snapshots/*/tokenizer.json"))
    chosen = path or (cached[-1] if cached else None)
    if chosen is not None and chosen.is_dir():
        chosen = chosen / "tokenizer.json"
    if chosen is None or not chosen.is_file():
        raise UsageError(
            f"no tokenizer at {chosen}" if chosen else f"no tokenizer for {model}: it is not in {home}",
            hint="--tokenizer PATH: the model's tokenizer.json, or the folder that has it",
        )
    return chosen


def arguments(endpoint: Endpoint, shape: Shape, tokenizer: Path, result: Path) -> tuple[str, ...]:
    """llama-benchy's command line. The first of ``runs`` are our warm-up: its own is left out. Pure."""
    return (
        *("--base-url", endpoint.url, "--model", endpoint.model, "--tokenizer", str(tokenizer), "--book-url", BOOK_URL),
        *("--pp", str(shape.prompt), "--tg", str(shape.answer), "--depth", str(shape.depth)),
        *("--concurrency", str(shape.concurrency), "--runs", str(shape.runs), "--no-warmup", "--skip-coherence"),
        *("--format", "json", "--save-result", str(result), "--emit-progress", "-"),
        *(["--exact-tg"] if shape.exact else []),
        *(["--extra-body", json.dumps(dict(shape.extra))] if shape.extra else []),
    )


def run(
    host: Host,
    endpoint: Endpoint,
    shape: Shape,
    *,
    tokenizer: Path,
    book: Book,
    log: Path,
    on_line: Callable[[str], None],
) -> Mapping[str, object]:
    """Run one shape; its progress goes to ``on_line`` as it comes, its own result is returned. Raises VerifyError."""
    site = install(host)
    with host.store.folder("load") as home:
        cache = home / ".cache/llama-benchy"
        cache.mkdir(parents=True)
        name = hashlib.md5(BOOK_URL.encode(), usedforsecurity=False).hexdigest()
        (cache / f"{name}.txt").write_text(book.text, encoding="utf-8")
        result = home / "result.json"
        argv = (sys.executable, "-I", "-S", "-c", START, str(site), *arguments(endpoint, shape, tokenizer, result))
        try:
            stream(argv, log=log, on_line=on_line, env=_env(host.store, host.env, home, endpoint.key))
        except CommandFailedError as error:
            raise VerifyError(
                f"llama-benchy ended with {error.returncode}", where=f"{last_lines(error.tail, 4)}\nlog: {log}"
            ) from error
        return read_result(result, log)


def _env(store: Store, env: Mapping[str, str], home: Path, key: str) -> dict[str, str]:
    bundle = ca_bundle(env)
    own = {"HOME": str(home), "HF_HUB_OFFLINE": "1", KEY: key or "EMPTY", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**env, **own, **({"SSL_CERT_FILE": str(bundle)} if bundle else {})}


def read_result(path: Path, log: Path) -> Mapping[str, object]:
    """llama-benchy's own JSON of one shape: its metadata and its one benchmark. Raises VerifyError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        (benchmark,) = found.pop("benchmarks")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VerifyError("llama-benchy wrote no result", where=f"{error}\nlog: {log}") from error
    return {**found, **benchmark}

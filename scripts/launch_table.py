"""Hold public launches that ran on Sparks against what `run OWNER/MODEL` chooses: the table of docs/launches.md.

    python3 -m bootstrap scripts/launch_table.py           # write the table
    python3 -m bootstrap scripts/launch_table.py --check   # exit 1 when it is not what gb10 chooses now

The launches, with their sources, are those of tests/unit/data/memory/cases.yaml that ran. Sizes are computed from
configs; no launch was repeated by us.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gb10.errors import UsageError  # noqa: E402 - the checkout goes on the path first
from gb10.models.choose.choosing import Choice, ModelFiles, Purpose, choose  # noqa: E402
from gb10.models.lint.engine_words import own_releases  # noqa: E402
from gb10.models.lint.fit import served_model  # noqa: E402
from gb10.models.load.loading import load_model_recipe  # noqa: E402
from gb10.models.memory.engines.budget import Machine  # noqa: E402
from gb10.models.memory.figures import load_figures  # noqa: E402
from gb10.models.memory.launch import Launch  # noqa: E402
from gb10.models.memory.model import FOLDER, read_known  # noqa: E402
from gb10.models.memory.shapes.config_fields import Fields  # noqa: E402
from gb10.models.render.rendered import RenderRequest  # noqa: E402

DATA: Final = ROOT / "tests/unit/data/memory"
PUBLIC: Final = ROOT / "tests/unit/data/explain/public"
PAGE: Final = ROOT / "docs/launches.md"
BEGIN: Final = "<!-- made by scripts/launch_table.py -->"
END: Final = "<!-- end -->"
CONTAINERS: Final = {"vllm": "vllm", "sglang": "sglang"}
NO_CONFIG: Final = "not compared: its config is not here"
CHAT: Final = 131_072
"""Tokens of `--for chat` at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A launch that ran, and what gb10 chooses for its model; ``ours`` may be the refusal."""

    model: str
    source: str
    theirs: Launch
    ours: Choice | str


def rows() -> Iterator[Row]:
    """The launches that ran, one for each model, engine, and number of nodes."""
    cases: list[dict[str, Any]] = yaml.safe_load((DATA / "cases.yaml").read_text(encoding="utf-8"))
    seen = set()
    for case in cases:
        theirs = launch_of(case)
        key = (case["model"], theirs.engine, theirs.nodes, theirs.table_in_file, theirs.drafts is None)
        if not case.get("ran") or key in seen:
            continue
        seen.add(key)
        yield Row(model=case["model"], source=case["source"], theirs=theirs, ours=ours_for(case["model"], theirs))


def launch_of(case: Mapping[str, Any]) -> Launch:
    """The launch of a case, as far as memory goes."""
    container = case.get("container", "vllm/vllm-openai:v0.33.0")
    recipe = {"model": case["model"], "container": container, "command": case["command"]}
    return served_model(load_model_recipe(yaml.safe_dump(recipe), "x.yaml"), RenderRequest(), own_releases()).launch


def ours_for(model: str, theirs: Launch) -> Choice | str:
    """What gb10 chooses by the model's config, or why nothing; for agents where theirs is as long as that."""
    file = f"{model.replace('/', '--', 1)}.json"
    path = FOLDER / file if (FOLDER / file).is_file() else DATA / "configs" / file
    public = PUBLIC / model.replace("/", "--", 1) / "config.json"
    config = dict(json.loads(path.read_text(encoding="utf-8")).get("config") or {})
    if public.is_file():
        config = {**json.loads(public.read_text(encoding="utf-8")), **config}
    config.setdefault("architectures", architectures_of(config))
    if not config["architectures"]:
        return NO_CONFIG
    files = ModelFiles(name=model, fields=Fields(config), sizes=read_known(path))
    purpose: Purpose = "agents" if (theirs.length or 0) > CHAT else "chat"
    try:
        return choose(files, Machine(figures=load_figures()), CONTAINERS, purpose=purpose)
    except UsageError as error:
        return f"refused: {error.message}"


def architectures_of(config: Mapping[str, Any]) -> list[str]:
    """Of an excerpt without them: those of a public config of the same type."""
    for path in sorted(PUBLIC.glob("*/config.json")):
        other = json.loads(path.read_text(encoding="utf-8"))
        if config and other.get("model_type") == config.get("model_type") and other.get("architectures"):
            return [str(one) for one in other["architectures"]]
    return []


def shown(launch: Launch) -> str:
    """A launch in one cell."""
    words = [f"{launch.engine} {launch.nodes} x" if launch.nodes > 1 else launch.engine]
    words += [f"{launch.fraction:.2f}"] if launch.fraction else []
    words += [f"{launch.length // 1024}k" if launch.length else "own length"]
    words += [f"{launch.requests} requests"] if launch.requests else []
    words += [launch.cache_type] if launch.cache_type != "auto" else []
    words += ["drafts"] if launch.drafts else []
    words += ["table in a file"] if launch.table_in_file else []
    return ", ".join(words)


def differences(row: Row) -> Iterator[tuple[bool, str]]:
    """What differs and why; whether ours is worse for the user."""
    if isinstance(row.ours, str):
        yield row.ours.startswith("refused"), row.ours
        return
    theirs, ours = row.theirs, row.ours.launch
    if ours.engine != theirs.engine:
        only = row.ours.reasons[0].why.rpartition("; ")[2]
        yield False, f"engine: {only}{', and vLLM comes first' if 'both' in only else ''}"
    if ours.nodes < theirs.nodes:
        yield False, f"nodes: {ours.nodes} hold it"
    elif ours.nodes > theirs.nodes:
        yield True, f"nodes: {ours.nodes} instead of {theirs.nodes}"
    if theirs.length and ours.length and ours.length < theirs.length:
        own = ours.length == row.ours.files.longest
        yield not own, "context: the model's own limit" if own else f"context: shorter than {theirs.length}"
    elif theirs.length and ours.length and ours.length > theirs.length:
        yield False, "context: longer, it fits"
    if theirs.requests and ours.requests and ours.requests < theirs.requests:
        yield False, f"requests: {ours.requests} are those of the use (64 for batch)"
    if theirs.cache_type not in (ours.cache_type, "auto"):
        yield False, "cache: its own type holds enough"
    if theirs.drafts and not ours.drafts:
        variant = "the variant mtp has them" if row.ours.draft_length else "no draft model is known to fit"
        yield False, f"drafts: off, {variant}"
    if theirs.fraction and ours.fraction and ours.engine == theirs.engine and ours.fraction < theirs.fraction - 0.02:
        yield False, "share: less is enough"


def table(found: Iterable[Row]) -> str:
    """The table of the page, and its count."""
    lines, equal, worse = [], 0, 0
    for row in found:
        told = [*differences(row)]
        equal += not told
        worse += any(bad for bad, _ in told)
        ours = "-" if isinstance(row.ours, str) else shown(row.ours.launch)
        why = "; ".join(f"**{text}**" if bad else text for bad, text in told) or "equal"
        lines.append(f"| {row.model} | {shown(row.theirs)} | {ours} | {why} |")
    head = ["| model | theirs | gb10's | differs |", "|---|---|---|---|"]
    skipped = sum(f"| {NO_CONFIG} |" in line for line in lines)
    count = (
        f"{len(lines)} launches. gb10's is worse (bold: more nodes, a shorter context, refused) in {worse}, equal in "
        f"{equal}; {skipped} are not compared. The others differ by choice."
    )
    return "\n".join([count, "", *head, *lines])


def page(text: str, found: Iterable[Row]) -> str:
    """The page with the table of these rows in its place."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{table(found)}\n\n{END}{rest.partition(END)[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    made = page(text, rows())
    if check:
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

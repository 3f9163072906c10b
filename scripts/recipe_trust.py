"""Which public recipes run without trust: drawn by a seed from clones of their repositories, judged as by `run`.

    python3 -m bootstrap scripts/recipe_trust.py verdicts CLONE... > verdicts.json
    python3 -m bootstrap scripts/recipe_trust.py draw BEFORE.json SEED COUNT CLONE... > drawn.json

CLONE is a git folder named OWNER+NAME, or one with a folder `repo` in it; its newest commit is read. `verdicts` lists
every recipe with what it may do beside its engine. `draw` takes those that needed no trust in BEFORE, which is what
`verdicts` said in another checkout, and that are rendered; it draws COUNT of them and judges them anew. What it prints
are facts about the recipes, not their text.
"""

import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gb10.image.request.recipe_mods import foreign_mods, load_file  # noqa: E402 - the checkout goes on the path first
from gb10.models.load.loading import is_recipe  # noqa: E402
from gb10.models.recipe_privileges import powers_of  # noqa: E402
from gb10.models.registries.recipe_file import SUFFIXES, RecipeFile  # noqa: E402
from gb10.models.registries.registry import Registry  # noqa: E402
from gb10.models.render.rendered import RenderRequest  # noqa: E402
from gb10.models.render.rendering import render_recipe  # noqa: E402

NODES: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A recipe of a repository; ``renders``: on some number of nodes it has no mistake."""

    repository: str
    commit: str
    path: str
    sha256: str
    powers: tuple[str, ...]
    renders: bool

    @property
    def document(self) -> dict[str, object]:
        """The row."""
        return {
            "repository": self.repository,
            "commit": self.commit,
            "path": self.path,
            "sha256": self.sha256,
            "needs": list(self.powers),
            "renders": self.renders,
        }


def recipes_of(clone: Path) -> Iterator[Found]:
    """All recipes of a repository's newest commit, in the order of their paths."""
    folder = clone / "repo" if (clone / "repo").is_dir() else clone
    repository = clone.name.replace("+", "/", 1)
    git = ["git", f"--git-dir={folder}"]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    registry = Registry(name=repository.partition("/")[2], kind="folder", source=f"/{repository}", pin=commit)
    with tempfile.TemporaryDirectory() as place:
        tree = subprocess.run([*git, "archive", "HEAD"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "--extract", "--directory", place], input=tree, check=True)
        root = Path(place)
        for path in sorted(path for path in root.rglob("*") if path.suffix in SUFFIXES and path.is_file()):
            content = path.read_bytes()
            if not is_recipe(content.decode("utf-8", "replace")):
                continue
            file = RecipeFile(path, registry, root)
            recipe = load_file(file)
            nodes = (tuple(f"node-{number}" for number in range(count)) for count in range(NODES + 1))
            yield Found(
                repository=repository,
                commit=commit,
                path=path.relative_to(root).as_posix(),
                sha256=hashlib.sha256(content).hexdigest(),
                powers=tuple(power.text for power in powers_of(recipe, foreign_mods(recipe, file))),
                renders=any(render_recipe(recipe, RenderRequest(nodes=names)).ranks for names in nodes),
            )


def main(words: list[str]) -> int:
    """Print the rows; 1 when fewer than 95 of 100 drawn recipes run without trust."""
    verb, *rest = words
    if verb == "verdicts":
        found = [one.document for clone in map(Path, rest) for one in recipes_of(clone)]
        print(json.dumps(found, indent=1))
        return 0
    before, seed, count, *clones = rest
    rows = json.loads(Path(before).read_text(encoding="utf-8"))
    plain = {(row["repository"], row["path"], row["sha256"]) for row in rows if not row["needs"] and row["renders"]}
    now = [one for clone in map(Path, clones) for one in recipes_of(clone)]
    asked = [one for one in now if (one.repository, one.path, one.sha256) in plain]
    drawn = random.Random(seed).sample(asked, int(count))  # noqa: S311 - a draw that can be repeated
    drawn.sort(key=lambda one: (one.repository, one.path))
    without = sum(not one.powers for one in drawn)
    head = {"seed": seed, "of": len(asked), "drawn": len(drawn), "without trust": without}
    print(json.dumps({**head, "rows": [one.document for one in drawn]}, indent=1))
    print(json.dumps(head), file=sys.stderr)
    return 0 if without * 100 >= 95 * len(drawn) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a commit requires by its own files, and what that changes of its release."""

from pathlib import Path

import pytest

from gb10.errors import UsageError
from gb10.image.patches.source_tree import Folder
from gb10.image.recipe.image_recipe import Recipe
from gb10.image.request.commit_requirements import differences, required
from gb10.image.request.refs import with_changed

DYNAMIC = '[project]\nname = "vllm"\ndynamic = ["dependencies"]\n'
CUDA = """\
# for NVIDIA
-r common.txt
--extra-index-url https://index.invalid
torch==2.13.0  # a reason
numba >= 0.6 ; platform_machine == "x86_64"
FlashInfer_Python==0.7.0.post1
"""


def tree(folder: Path, **files: str) -> Folder:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_toml", ".toml").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Folder(folder)


def plain(folder: Folder) -> dict[str, str]:
    return {demand.project: str(demand.specifier) for demand in required(folder, "it").demands}


def test_lists_of_requirements_with_those_that_they_name(tmp_path: Path) -> None:
    made = tree(
        tmp_path,
        pyproject_toml=DYNAMIC,
        requirements__cuda_txt=CUDA,
        requirements__common_txt="pydantic\n-r cuda.txt\n",
    )
    assert plain(made) == {"pydantic": "", "torch": "==2.13.0", "flashinfer-python": "==0.7.0.post1"}
    assert required(made, "it").files == ("requirements/cuda.txt", "requirements/common.txt")


def test_a_project_file_comes_first(tmp_path: Path) -> None:
    text = '[project]\nname = "sglang"\ndependencies = ["torch==2.14.1", "sglang-kernel==0.4.10"]\n'
    made = tree(tmp_path, python__pyproject_toml=text, requirements_txt="numpy\n")
    assert plain(made) == {"torch": "==2.14.1", "sglang-kernel": "==0.4.10"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("README_txt", "", "it says nowhere what it requires"),
        ("requirements_txt", "torch=2\n", "has a line that is no requirement"),
        ("requirements_txt", "a" * 100_000 + "\n", "has a line that is no requirement"),
        ("requirements_txt", "torch" + "(" * 5000 + "\n", "has a line that is no requirement"),
        ("pyproject_toml", "[project\n", "is no TOML"),
    ],
)
def test_a_commit_without_requirements_is_one_error(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        required(tree(tmp_path, **{name: text}), "it")


def test_no_list_leads_out_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("stolen\n", encoding="utf-8")
    made = tree(tmp_path / "tree", requirements_txt="torch\n-r ../secret.txt\n-r /etc/hosts\n")
    assert plain(made) == {"torch": ""}


def test_what_a_commit_requires_otherwise(tmp_path: Path) -> None:
    old = required(tree(tmp_path / "a", requirements_txt="torch==2.13.0\npydantic>=2\ngone\nsame==1\n"), "a")
    new = required(tree(tmp_path / "b", requirements_txt="torch==2.14.0\npydantic\nsame==1\nfresh>=3\n"), "b")
    found = differences(old.demands, new.demands)
    assert [str(one) for one in found] == [
        "fresh>=3 (new)",
        "pydantic (before: >=2)",
        "torch==2.14.0 (before: ==2.13.0)",
    ]
    assert [one.after.pin for one in found] == [None, None, "2.14.0"]


def test_requirements_of_a_commit_hold_in_place_of_the_wheels_own(recipe: Recipe) -> None:
    """Exact releases of what the recipe requires move with their source archives; the recipe's own override stays."""
    made = with_changed(recipe, ("flashinfer-python==0.8.0", "fastapi[standard]>=1", "certifi>=2027", "torch>=2.14"))
    assert made.requirements == (
        "vllm==0.33.0",
        "torch>=2.14",
        "flashinfer-python==0.8.0",
        "b12x==1.5.1",
        "pip",
        "fastapi[standard]>=1",
    )
    assert made.sources["flashinfer"].sdist == "flashinfer-python==0.8.0"
    own = [one.requirement for one in made.overrides]
    assert own == ["certifi>=2026.1", "flashinfer-python==0.8.0", "fastapi[standard]>=1", "torch>=2.14"]
    assert with_changed(recipe, ()) == recipe


def test_extras_of_a_requirement_are_kept(tmp_path: Path) -> None:
    (demand,) = required(tree(tmp_path, requirements_txt="nvidia-cutlass-dsl[cu13]==4.8.0\n"), "it").demands
    assert (demand.wants, demand.pin) == ("[cu13]", "4.8.0")

"""What a script decides only when it runs, and words that a server does not get as they are meant."""

from pathlib import Path

import pytest

from gb10.cli import main
from gb10.models.launches.compose_services import variables_of
from gb10.models.launches.container_launch import ContainerLaunch, interpolated
from gb10.models.launches.launch_forms import launches_of
from gb10.models.launches.launch_recipe import launch_issues, model_of
from gb10.models.launches.shell_words import MOST, arrays_of
from tests.hang import no_hang

IMAGE = "vllm/vllm-openai:v0.33.0"
RUN = f"docker run --gpus all {IMAGE}"


def only(text: str, file: str = "x.sh") -> ContainerLaunch:
    found = launches_of(text, file)
    assert found is not None
    (one,) = found.servers
    return one


def codes(text: str, file: str = "x.sh") -> list[str]:
    return [issue.code for issue in launch_issues(only(text, file), file)]


@pytest.mark.parametrize("sign", [":=", "="])
def test_a_default_that_a_script_sets_is_a_value(sign: str) -> None:
    script = f': "${{M{sign}org/m}}"\n: "${{I{sign}{IMAGE}}}"\n'
    assert only(f'{script}docker run --gpus all "$I" "$M"').words == ("vllm", "serve", "org/m")
    assert only(f'{script}vllm serve "$M" --port 1').words[2] == "org/m"
    assert only(f'M=other/m\n{script}vllm serve "$M" --port 1').words[2] == "other/m"


@pytest.mark.parametrize(
    "added",
    [
        '[ -n "$S" ] && A+=(--seed 1)',
        'if [ "$S" ]; then\n  A+=(--seed 1)\nfi',
        'if [ "$S" ]; then A+=(--seed 1); fi',
        "case $S in\n  x) ;;\n  *)\n  A+=(--seed 1)\n  ;;\nesac",
        "for one in 1; do\n  A+=(--seed 1)\ndone",
        "if true; then\n  A=(--seed 1)\nfi",
    ],
)
def test_what_a_branch_adds_is_left_out_and_said(added: str) -> None:
    for call in (RUN, "vllm serve"):
        one = only(f'A=(org/m --port 1)\n{added}\n{call} "${{A[@]}}"')
        assert one.words == ("vllm", "serve", "org/m", "--port", "1")
        assert [left.written for left in one.left if "condition" in left.why] == ["--seed 1"]


def test_what_stands_behind_a_branch_is_added() -> None:
    one = only(f'A=(org/m)\nif true; then\n  B=1\nfi\nA+=(--port 1)\n{RUN} "${{A[@]}}"')
    assert one.words[2:] == ("org/m", "--port", "1")


@pytest.mark.parametrize("word", ['"$@"', "$*", '"${@:2}"'])
def test_the_arguments_of_the_script_are_no_option(word: str) -> None:
    for call in (f"{RUN} org/m --port 1", "exec vllm serve org/m --port 1"):
        one = only(f"{call} {word}")
        assert one.words == ("vllm", "serve", "org/m", "--port", "1")
        assert [left.why for left in one.left] == ["the script's own arguments are known only where it runs"]


@pytest.mark.parametrize("last", ["'{\"a\": 1}'", "x", '"x y"'])
def test_an_option_below_a_line_without_a_backslash_is_lost(last: str) -> None:
    call = f"{RUN} org/m \\\n  --override-generation-config {last}"
    assert "call-ends-early" in codes(f"{call}\n  --max-model-len 1\n")
    assert "call-ends-early" not in codes(f"{call} \\\n  --max-model-len 1\n")
    assert "call-ends-early" not in codes(f"{call}\n# --max-model-len 1\n- item\necho done --x\n")
    assert only("vllm serve org/m\n  --port 1\n").behind == 2


COMPOSE = "services: {{s: {{gpus: all, image: '{}', command: {}}}}}\n"


@pytest.mark.parametrize(
    ("image", "command", "wrong"),
    [
        (IMAGE, "[--model, org/m]", False),
        (IMAGE, "vllm serve org/m", True),
        (IMAGE, "['bash', '-c', 'vllm serve org/m']", True),
        (IMAGE, "python3 -m vllm.entrypoints.openai.api_server --model org/m", True),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama-server -m x.gguf", True),
        ("nvcr.io/nvidia/vllm:26.08-py3", "vllm serve org/m", False),
        ("lmsysorg/sglang:v0.5.23", "sglang serve --model-path org/m", False),
    ],
)
def test_a_server_that_the_image_starts_by_itself_is_not_named_again(image: str, command: str, wrong: bool) -> None:
    assert ("entrypoint-repeated" in codes(COMPOSE.format(image, command), "x.yaml")) == wrong


def test_an_entrypoint_of_the_files_own_is_no_repetition() -> None:
    assert codes(f"docker run --gpus all --entrypoint vllm {IMAGE} serve org/m") == []
    pod = f"{{name: a, image: {IMAGE}, command: [vllm, serve, org/m], resources: {{limits: {{nvidia.com/gpu: 1}}}}}}"
    assert codes(f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{pod}]}}\n", "x.yaml") == []


@pytest.mark.parametrize(
    ("item", "wrong"),
    [
        ("--dtype auto", True),
        ("-m /models/x y.gguf", True),
        ("--limit-mm-per-prompt={'video': 0}", False),
        ("--dtype=auto", False),
        ("a b", False),
        ("--trust-remote-code", False),
    ],
)
def test_an_option_and_its_value_in_one_item_of_a_list(item: str, wrong: bool) -> None:
    command = f'[--model, org/m, "{item}"]'
    assert codes(COMPOSE.format(IMAGE, command), "x.yaml") == (["two-words-in-one"] if wrong else [])


@pytest.mark.parametrize(
    ("command", "environment", "model"),
    [
        ("-m /m/x.gguf --port 1", "", "/m/x.gguf"),
        ("-hf org/x-GGUF:Q4_K_M", "", "org/x-GGUF:Q4_K_M"),
        ("--port 1", "LLAMA_ARG_MODEL: /m/x.gguf", "/m/x.gguf"),
        ("--port 1", "LLAMA_ARG_HF_REPO: org/x-GGUF", "org/x-GGUF"),
        ("--port 1", "", ""),
    ],
)
def test_the_names_of_llama_cpp_for_a_model(command: str, environment: str, model: str) -> None:
    service = f"image: 'ghcr.io/ggml-org/llama.cpp:server-cuda', gpus: all, command: {command}"
    assert model_of(only(f"services: {{s: {{{service}, environment: {{{environment}}}}}}}\n", "x.yaml")) == model


def test_an_m_of_another_engine_is_no_model() -> None:
    assert model_of(only(f"docker run --gpus all {IMAGE} --port 1 -m x")) == ""


def test_the_variables_of_the_file_beside_a_compose_file() -> None:
    text = (
        f"services:\n  a:\n    image: {IMAGE}\n    command: --model ${{M:-org/m}} --port ${{P}} --max-num-seqs ${{N}}\n"
    )
    dotenv = "# a comment\nM='org/its # own'\nexport P=9000 # the port\nP=9001\nnot a line\nL=\n" + f"X={' ' * 300000}"
    found = launches_of(text, "compose.yaml", lambda: dotenv)
    assert found is not None
    (one,) = found.servers
    assert one.words == ("vllm", "serve", "--model", "org/its # own", "--port", "9001", "--max-num-seqs", "$N")


def test_a_file_of_variables_as_compose_reads_it_without_its_secrets() -> None:
    dotenv = "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz\nO=org\nM=${O}/m\nQ='$O'\nEMPTY=\nWORD=$HF_TOKEN\n"
    assert variables_of(dotenv) == {"O": "org", "M": "org/m", "Q": "$O", "EMPTY": "", "WORD": "$HF_TOKEN"}
    text = f"services: {{a: {{image: {IMAGE}, environment: ['T=${{HF_TOKEN}}'], command: org/m}}}}\n"
    found = launches_of(text, "compose.yaml", lambda: dotenv)
    assert found is not None
    assert found.servers[0].environment == {"T": "$HF_TOKEN"}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        *(("${E:-d}", "d"), ("${E-d}", ""), ("${E:=d}", "d"), ("${E:+d}", ""), ("${E+d}", "d"), ("${E}", "")),
        *(("${A:-d}", "a"), ("${A:+d}", "d"), ("${A:?no}", "a"), ("${U:-d}", "d"), ("${U:+d}", "$U"), ("$$A", "$A")),
    ],
)
def test_a_variable_that_is_empty_has_no_value_behind_a_colon(written: str, value: str) -> None:
    assert interpolated(written, {"A": "a", "E": ""}) == value


@no_hang()
def test_many_additions_in_a_branch_are_read_in_one_pass() -> None:
    text = "x=(--a)\nif true; then\n" + "x+=(b)\n" * 30_000 + "fi\nx+=(--c)\n"
    found = arrays_of(text)  # 140 s of CPU before
    assert (found.words, len(found.conditional["x"])) == ({"x": ["--a", "--c"]}, MOST)


@pytest.mark.parametrize("folder", ["plain", "link", "none"])
def test_lint_and_import_read_that_file(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, dotenv = tmp_path / "compose.yaml", tmp_path / ".env"
    command = "--model org/m --gpu-memory-utilization 0.8 --max-model-len ${LENGTH}"
    file.write_text(f"services:\n  a:\n    image: {IMAGE}\n    gpus: all\n    command: {command}\n", encoding="utf-8")
    (tmp_path / "other").write_text("LENGTH=many\n", encoding="utf-8")
    if folder == "plain":
        dotenv.write_text("LENGTH=many\n", encoding="utf-8")
    elif folder == "link":
        dotenv.symlink_to("other")
    main(("recipe", "lint", str(file)))
    assert ("[wrong-number]" in capsys.readouterr()[0]) == (folder == "plain")
    main(("recipe", "import", str(file)))
    assert ("--max-model-len many" in capsys.readouterr()[0]) == (folder == "plain")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python3 -m vllm.entrypoints.cli.main serve org/m --port 1", "serve org/m --port 1"),
        ("docker run ghcr.io/ggml-org/llama.cpp:full-cuda --server -m m.gguf", "llama-server -m m.gguf"),
        ("docker run ghcr.io/ggml-org/llama.cpp:server -m m.gguf", "llama-server -m m.gguf"),
    ],
)
def test_other_spellings_of_a_server(text: str, words: str) -> None:
    assert " ".join(only(text).words).endswith(words)


def test_the_other_programs_of_an_image_are_no_server() -> None:
    found = launches_of("docker run ghcr.io/ggml-org/llama.cpp:full --convert m", "x.sh")
    assert found is not None
    assert not found.servers

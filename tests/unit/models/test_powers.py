"""What a recipe may do beside its engine: each kind is found with its line, and a plain recipe has none."""

import shlex

import pytest
import yaml

from gb10.image.request.recipe_mods import foreign_mods, load_file
from gb10.models.load.loading import load_model_recipe
from gb10.models.recipe_privileges import Power, powers_of
from gb10.models.registries.recipe_file import RecipeFile, model_names, models_folder
from gb10.models.render.untrusted_command import NotPlainError, doubt_of, plain_command

VLLM = "https://github.com/vllm-project/vllm"
MORE = "the command is more than an engine and plain options: "
REFUSED = """
BASH_ENV BASH_FUNC_x ENV PS4 SHELLOPTS BASHOPTS IFS PATH CDPATH HOME TMPDIR LD_PRELOAD LD_LIBRARY_PATH
LD_AUDIT GCONV_PATH LOCPATH NLSPATH PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONWARNINGS
PYTHONBREAKPOINT PERL5OPT NODE_OPTIONS RUBYOPT JAVA_TOOL_OPTIONS GIT_SSH_COMMAND EDITOR PAGER BROWSER CC CXX
NVCC_PREPEND_FLAGS CUDA_INJECTION64_PATH VLLM_NCCL_SO_PATH VLLM_CUDART_SO_PATH VLLM_LOGGING_CONFIG_PATH
VLLM_PLUGINS VLLM_ALLOW_INSECURE_SERIALIZATION VLLM_SERVER_DEV_MODE VLLM_ALLOW_RUNTIME_LORA_UPDATING
VLLM_DP_MASTER_IP VLLM_API_KEY SGLANG_EXTERNAL_MODEL_PACKAGE FLASHINFER_NVCC FLASHINFER_CUBINS_REPOSITORY
NCCL_TUNER_PLUGIN NCCL_CONF_FILE NCCL_DEBUG_FILE NCCL_COMM_ID UCX_MODULE_DIR UCX_GDB_COMMAND
OMPI_MCA_plm_rsh_agent RAY_ADDRESS HF_TOKEN HF_ENDPOINT HTTPS_PROXY SSL_CERT_FILE REQUESTS_CA_BUNDLE
TRITON_CACHE_DIR TRITON_LIBCUDA_PATH TORCHINDUCTOR_CXX LOGNAME vllm_use_x VLLM
"""
PLAIN = {"model": "org/m", "container": "vllm/vllm-openai:v0.33.0", "command": "vllm serve org/m \\\n  --port 1\n"}


def powers(**keys: object) -> tuple[Power, ...]:
    text = yaml.safe_dump({**PLAIN, **keys}, sort_keys=False)
    recipe = load_model_recipe(text, "x.yaml")
    return powers_of(recipe, recipe.mods)


@pytest.mark.parametrize(
    ("keys", "text", "used"),
    [
        ({"pre_exec": ["apt-get install x"]}, "pre_exec runs as root in each container: apt-get install x", False),
        ({"pre_exec": [{"copy": "a", "dest": "/b"}]}, "pre_exec runs as root", False),
        ({"post_exec": "curl x"}, "post_exec runs in the head's container: curl x", False),
        ({"post_commands": ["rm -rf ~"]}, "post_commands runs on the machine that launches: rm -rf ~", False),
        ({"mods": ["mods/a"]}, "the mod mods/a runs as root in each container, or in the image's build", True),
        ({"executor_config": {"volumes": ["/etc:/x"]}}, "its containers get of the host: volumes=/etc:/x", True),
        ({"volumes": {"/root/.ssh": "/x"}}, "its containers get of the host: volumes=/root/.ssh:/x", True),
        ({"executor_config": {"privileged": True}}, "its containers get of the host: privileged=true", True),
        ({"executor_config": {"devices": ["/dev/mem"]}}, "its containers get of the host: devices=/dev/mem", True),
        ({"executor_config": {"network": "bridge"}}, "its containers run with network: bridge", False),
        ({"executor_config": {"cap_add": ["SYS_ADMIN"]}}, "its containers get of the host: cap_add=SYS_ADMIN", True),
        (
            {"executor_config": {"labels": {"traefik.enable": True}}},
            "its containers get of the host: labels=traefik",
            True,
        ),
        ({"container": "ghcr.io/somebody/theirs:1"}, "its containers are of somebody's image", True),
        ({"build_args": ["--vllm-repo", "https://x/y"]}, "the image gets code from elsewhere: --vllm-repo https", True),
        ({"build_args": ["--vllm-ref", "a" * 40]}, f"the image gets code from elsewhere: vllm=git:{VLLM}", True),
        ({"build_args": [f"--vllm-ref={'a' * 40}"]}, f"the image gets code from elsewhere: vllm=git:{VLLM}", True),
        (
            {"build_args": ["--vllm-ref refs/pull/1/head"]},
            "the image gets code from elsewhere: pull request 1 of",
            True,
        ),
        ({"gb10": {"patches": ["vllm=https://x/y.diff"]}}, "the image gets a patch: vllm=https://x/y.diff", True),
        ({"command": "/entry vllm serve org/m"}, f"{MORE}it starts something else: /entry vllm", True),
        ({"command": "vllm serve org/m && id"}, f"{MORE}a shell reads &: && id", True),
        ({"command": "vllm serve org/m --x {x}", "defaults": {"x": "$(id)"}}, f"{MORE}a shell reads $: $(id)", True),
        ({"env": {"BASH_ENV": "x"}}, "it sets the variable BASH_ENV=x: it is not one of those", True),
        (
            {"env": {"FLASHINFER_CUDA_ARCH_LIST": "12.1a;sh</var/cache/gb10/huggingface/hub/x;a"}},
            "it sets the variable FLASHINFER_CUDA_ARCH_LIST=12.1a;sh</var/cache",
            True,
        ),
        ({"env": {"VLLM_A": "1;id"}}, "it sets the variable VLLM_A=1;id: its value is a path", True),
        ({"env": {"VLLM_USE_MODELSCOPE": "1"}}, "it sets the variable VLLM_USE_MODELSCOPE=1: it is not one", True),
        ({"env": {"VLLM_ASSETS_CACHE": "root/x"}}, "it sets the variable VLLM_ASSETS_CACHE=root/x: it is not", True),
        *(
            ({"command": f"vllm serve org/m {words}"}, f"its command: {text}", True)
            for words, text in (
                ("--tool-parser-plugin x.py", "the option --tool-parser-plugin runs code"),
                ("--tool-parser-pl=x.py", "the option --tool-parser-pl runs code"),
                ("--middleware os.path", "the option --middleware runs code"),
                ("--worker_extension_cls a.B", "the option --worker_extension_cls runs code"),
                ("--kv-transfer-config.kv_connector_module_path x", "the option --kv-transfer-config.kv"),
                ("""--kv-transfer-config '{"kv_connector_module_path":"x"}'""", "a value names code to run"),
                ("--chat-template /gb10/secrets/HF_TOKEN", "it names a file of the container"),
                ("--chat-template=/proc/self/environ", "it names a file of the container"),
                ("--chat-template examples/../../etc/x", "it names a file of the container"),
            )
        ),
        ({"env": {"VLLM_A": "$(id)"}}, "it sets the variable VLLM_A=$(id): its value is a path", True),
    ],
)
def test_a_power_is_found(keys: dict[str, object], text: str, used: bool) -> None:
    (found,) = powers(**keys)
    assert found.text.startswith(text)
    assert found.used == used
    assert found.line > 0


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"pre_exec": None, "mods": None, "executor_config": None, "build_args": []},
        {"executor_config": {"privileged": False, "entrypoint": "", "shm_size": "32g"}},
        {"container": "gb10/vllm:0.33.0-cu130-sm121f"},
        {"env": {"VLLM_USE_DEEP_GEMM": 0, "NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1"}},
        {"env": {"VLLM_DISABLE_COMPILE_CACHE": 1, "FLASHINFER_CUDA_ARCH_LIST": "12.0;12.1+PTX"}},
        {"env": {"TORCH_CUDA_ARCH_LIST": "12.1a"}},
        {"command": "vllm serve org/m --reasoning-parser qwen3 --tool-call-parser x --chat-template a/b.jinja"},
        {"command": "vllm serve org/m --trust-remote-code --config-format hf --hf-overrides '{\"a\":1}'"},
        {"command": None, "defaults": {"port": 8000}},
    ],
)
def test_a_plain_recipe_has_none(keys: dict[str, object]) -> None:
    assert powers(**keys) == ()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("vllm serve m --port 1", ["vllm", "serve", "m", "--port", "1"]),
        ("vllm serve m \\\n  --y '{\"a\": 1}' \\\n", ["vllm", "serve", "m", "--y", '{"a": 1}']),
        ("vllm serve m --y='{\"a\": 1}' --z \"b c\"d ''", ["vllm", "serve", "m", '--y={"a": 1}', "--z", "b cd", ""]),
        ("python3 -m sglang.launch_server --x", ["python3", "-m", "sglang.launch_server", "--x"]),
        ("  llama-server -m a.gguf\n", ["llama-server", "-m", "a.gguf"]),
    ],
)
def test_a_plain_command_has_the_words_that_a_shell_would_make_of_it(command: str, words: list[str]) -> None:
    assert list(plain_command(command).words) == words
    assert shlex.split(command.replace("\\\n", " ")) == words


def test_variables_before_a_command_are_no_words_of_it() -> None:
    found = plain_command("A=1 B='x y' sglang serve --model-path x A=2")
    assert (found.words[-1], found.environment) == ("A=2", {"A": "1", "B": "x y"})


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "it starts nothing"),
        ("A=1", "it starts nothing"),
        ("vllm serve x; rm -rf /", "a shell reads ;: ; rm -rf /"),
        ("vllm serve x | tee log", "a shell reads |"),
        ("vllm serve x > /log", "a shell reads >"),
        ("vllm serve $(cat /etc/passwd)", "a shell reads $"),
        ("vllm serve `id`", "a shell reads `"),
        ("vllm serve {a,b}", "a shell reads {"),
        ("vllm serve ~/x", "a shell reads ~"),
        ("vllm serve *", "a shell reads *"),
        ("vllm serve x # y", "a shell reads #"),
        ("# x\nvllm serve x", "a shell reads #"),
        ("vllm serve x\nid", "it has a second line: id"),
        ("vllm serve x \\ \n --y", "a shell reads \\"),
        ("vllm serve $'\\'' ; id #'", "a shell reads $"),
        ("vllm serve '$x'", "a quotation holds $ or does not end"),
        ("vllm serve 'x", "a quotation does not end: 'x"),
        ("vllm serve 'x\ny'", "a quoted word holds the character U+000A"),
        ("vllm serve x\tid", "it holds the character U+0009"),
        ("vllm serve x\x85id", "it holds the character U+0085"),
        ("/entrypoint.sh vllm serve x", "it starts something else: /entrypoint.sh vllm"),
        ("vllm serve-evil x", "it starts something else"),
        ("llama-server/../../x", "it starts something else"),
        ("env vllm serve x", "it starts something else: env vllm serve x"),
    ],
)
def test_a_command_that_needs_a_shell_or_starts_something_else(command: str, why: str) -> None:
    with pytest.raises(NotPlainError) as caught:
        plain_command(command)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("VLLM_USE_DEEP_GEMM", "0", True),
        ("NCCL_NET_PLUGIN", "none", True),
        ("TRITON_PTXAS_PATH", "/usr/local/cuda/bin/ptxas", True),
        ("HF_HOME", "/var/cache/gb10/huggingface", True),
        ("VLLM_CACHE_ROOT", "/root/.cache/vllm", True),
        ("VLLM_DISTRIBUTED_EXECUTOR_CONFIG", '{"placement_group_options":{"strategy":"SPREAD"}}', True),
        ("VLLM_LOGGING_LEVEL", "DEBUG", True),
        ("VLLM_LOGGING_LEVEL", "", True),
        ("VLLM_LOGGING_LEVEL", "a,b:c/d", True),
        ("VLLM_LOGGING_LEVEL", "http://h", False),
        ("VLLM_LOGGING_LEVEL", "a/../b", False),
        ("VLLM_LOGGING_LEVEL", "$(id)", False),
        ("VLLM_LOGGING_LEVEL", "/opt/x", False),
        ("NCCL_NET_PLUGIN", "x", False),
        ("TRITON_PTXAS_PATH", "/root/.cache/x", False),
        ("HF_HOME", "/usr/bin", False),
        ("VLLM_CACHE_ROOT", "/root/.cache/huggingface/hub/models--a--b", False),
        ("VLLM_CACHE_ROOT", "/root/.cache/../../x", False),
        ("VLLM_USE_X", "/opt/x.so", False),
        ("VLLM_USE_X", "a\nb", False),
        *((name, "x", False) for name in REFUSED.split()),
    ],
)
def test_variables_that_a_recipe_of_others_may_set(name: str, value: str, allowed: bool) -> None:
    assert (doubt_of(name, value) is None) == allowed


def test_our_own_recipes_do_nothing_else_but_what_is_known() -> None:
    for name in model_names():
        file = RecipeFile(models_folder() / f"{name}.yaml")
        recipe = load_file(file)
        allowed = ("the image gets a patch", "its containers are of somebody's image: nvcr.io/nvidia/tensorrt-llm")
        filed = f"{MORE}a shell writes its parameters into a file" if "trtllm" in name else allowed[0]
        assert all(
            power.text.startswith((*allowed, filed)) for power in powers_of(recipe, foreign_mods(recipe, file))
        ), name

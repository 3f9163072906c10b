"""Which Python and which engine an image of others holds, in every layout, and the errors where that is not one."""

import json

import pytest

from gb10.errors import UsageError, VerifyError
from tests.unit.made_up_bases import X86, File, base, elf, package, python

DRIVES = (
    "gb10.image.base.described",
    "gb10.image.base.found_packages",
    "gb10.image.base.pythons",
)  # through others: see tests/mutations.py

DEBIAN = python(site="dist-packages")
DIST = "usr/local/lib/python3.12/dist-packages"
VENV: list[File] = [
    ("opt/venv/bin/python3", "/usr/bin/python3", "l"),
    ("opt/venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.12.3\n", "f"),
]
VENV_SITE = "opt/venv/lib/python3.12/site-packages"
VENV_PATH = ("PATH=/opt/venv/bin:/usr/bin",)


def test_debians_python_has_its_own_folders() -> None:
    system = package("usr/lib/python3/dist-packages", "wheel", "0.42.0")
    one = base([*DEBIAN, *system], package(DIST, "vllm", "0.34.0.dev12+gabc"))
    assert (one.interpreter, one.python, one.engine, one.version) == (
        "/usr/bin/python3",
        "3.12",
        "vllm",
        "0.34.0.dev12+gabc",
    )
    assert one.site_packages == (f"/{DIST}", "/usr/lib/python3/dist-packages")
    assert {name: row.folder for name, row in one.installed.items()} == {
        "vllm": f"/{DIST}",
        "wheel": "/usr/lib/python3/dist-packages",
    }


def test_what_an_image_sets_is_kept_and_what_it_does_not_set_is_empty() -> None:
    files = [*DEBIAN, *package(DIST, "vllm", "0.33.0")]
    plain = base(files)
    assert (plain.workdir, plain.user, plain.entrypoint, plain.command) == ("/", "", (), ())
    one = base(files, WorkingDir="/work", User="me", Entrypoint=["a", "b"], Cmd=["c"])
    assert (one.workdir, one.user, one.entrypoint, one.command) == ("/work", "me", ("a", "b"), ("c",))


def test_dockers_python_in_usr_local_comes_before_the_systems() -> None:
    site = "usr/local/lib/python3.13/site-packages"
    one = base(DEBIAN, [*python("usr/local", "3.13"), *package(site, "sglang", "0.5.9")])
    assert (one.interpreter, one.python, one.site_packages) == ("/usr/local/bin/python3", "3.13", (f"/{site}",))


def test_a_venv_without_system_packages_sees_its_own_alone() -> None:
    one = base([*DEBIAN, *package(DIST, "numpy", "1.0")], [*VENV, *package(VENV_SITE, "vllm", "0.33.0")], Env=VENV_PATH)
    assert one.interpreter == "/opt/venv/bin/python3"
    assert set(one.installed) == {"vllm"}
    assert one.site_packages[0] == f"/{VENV_SITE}"


def test_a_venv_with_system_packages_sees_both_and_its_own_first() -> None:
    config = VENV[1][1].replace("false", "true") if isinstance(VENV[1][1], str) else ""
    venv = [VENV[0], (VENV[1][0], config, "f"), *package(VENV_SITE, "numpy", "2.0")]
    one = base([*DEBIAN, *package(DIST, "vllm", "0.33.0"), *package(DIST, "numpy", "1.0")], venv, Env=VENV_PATH)
    assert one.interpreter == "/opt/venv/bin/python3"
    assert (one.installed["vllm"].folder, one.installed["numpy"].version) == (f"/{DIST}", "2.0")


def test_conda_and_its_environments_are_found() -> None:
    site = "opt/conda/envs/serve/lib/python3.11/site-packages"
    serve = [*python("opt/conda/envs/serve", "3.11"), *package(site, "sglang", "0.5.9")]
    one = base([*python("opt/conda", "3.13"), *serve], Env=["PATH=/opt/conda/bin:/usr/bin"])
    assert (one.interpreter, one.engine) == ("/opt/conda/envs/serve/bin/python3", "sglang")


CHECKOUT = "sgl-workspace/sglang/python"
URL = json.dumps({"url": f"file:///{CHECKOUT}", "dir_info": {"editable": True}})
FINDER = f"MAPPING: dict[str, str] = {{'sglang': '/{CHECKOUT}/sglang'}}\nNAMESPACES = {{}}\n"


@pytest.mark.parametrize(
    "names",
    [
        [(f"{DIST}/__editable__.sglang-0.5.9.pth", f"/{CHECKOUT}\n", "f")],
        [
            (f"{DIST}/__editable__.sglang-0.5.9.pth", "import __editable___sglang_0_5_9_finder; x.install()", "f"),
            (f"{DIST}/__editable___sglang_0_5_9_finder.py", FINDER, "f"),
        ],
        [],
    ],
    ids=["pth", "finder", "url alone"],
)
def test_an_editable_checkout_is_where_its_files_are(names: list[File]) -> None:
    info = [row for row in package(DIST, "sglang", "0.5.9", direct_url__json=URL) if "dist-info" in row[0]]
    one = base([*DEBIAN, *info, *names, (f"{CHECKOUT}/sglang/__init__.py", "", "f")])
    found = one.installed["sglang"]
    assert (found.folder, found.editable) == (f"/{CHECKOUT}", True)
    assert found.metadata == f"/{DIST}/sglang-0.5.9.dist-info/METADATA"


def test_an_old_editable_install_is_found_by_its_egg_info() -> None:
    egg: list[File] = [
        (f"{DIST}/easy-install.pth", f"/{CHECKOUT}\n", "f"),
        (f"{CHECKOUT}/sglang.egg-info/PKG-INFO", "Name: sglang\nVersion: 0.4.1\n", "f"),
        (f"{CHECKOUT}/sglang/__init__.py", "", "f"),
    ]
    one = base([*DEBIAN, *egg])
    assert (one.installed["sglang"].folder, one.installed["sglang"].editable) == (f"/{CHECKOUT}", True)


def test_a_layer_above_replaces_and_removes() -> None:
    first = [*DEBIAN, *package(DIST, "vllm", "0.32.0"), *package(DIST, "numpy", "1.0")]
    above: list[File] = [
        (f"{DIST}/.wh.vllm-0.32.0.dist-info", "", "f"),
        (f"{DIST}/.wh.numpy-1.0.dist-info", "", "f"),
        *package(DIST, "vllm", "0.33.0"),
    ]
    assert {name: row.version for name, row in base(first, above).installed.items()} == {"vllm": "0.33.0"}


def test_the_entrypoint_decides_between_two_pythons() -> None:
    both = [*DEBIAN, *package(DIST, "vllm", "0.32.0"), *VENV, *package(VENV_SITE, "vllm", "0.33.0")]
    script: File = ("opt/venv/bin/vllm", "#!/opt/venv/bin/python3\nimport sys\n", "x")
    one = base([*both, script], Env=["PATH=/usr/bin"], Entrypoint=["/opt/venv/bin/vllm", "serve"])
    assert (one.interpreter, one.version) == ("/opt/venv/bin/python3", "0.33.0")
    by_shell = base([*both, script], Env=VENV_PATH, Cmd=["/bin/sh", "-c", "exec vllm serve"])
    assert by_shell.version == "0.33.0"


def test_two_pythons_with_an_engine_are_an_error_that_names_both_and_the_way_out() -> None:
    both = [*DEBIAN, *package(DIST, "vllm", "0.32.0"), *VENV, *package(VENV_SITE, "sglang", "0.5.9")]
    with pytest.raises(UsageError) as caught:
        base(both, Env=VENV_PATH, Entrypoint=["/opt/nvidia/nvidia_entrypoint.sh"])
    text = str(caught.value)
    assert "/usr/bin/python3: vllm 0.32.0" in text
    assert "/opt/venv/bin/python3: sglang 0.5.9" in text
    assert "`python: PATH`" in text
    assert base(both, Env=VENV_PATH, wanted={"python": "/usr/bin/python3"}).engine == "vllm"


def test_one_python_by_two_names_is_one() -> None:
    files = [*DEBIAN, *VENV, *package(VENV_SITE, "vllm", "0.33.0")]
    links: list[File] = [("venv", "/opt/venv", "l"), ("bin", "usr/bin", "l")]
    assert base([*links, *files], Env=["PATH=/venv/bin:/bin"]).interpreter == "/venv/bin/python3"


def test_a_python_that_is_meant_and_is_none_is_an_error_that_lists_the_others() -> None:
    for path in ("/usr/bin/python9", "/usr/lib/python3.12/os.py", "python3"):
        with pytest.raises(UsageError) as caught:
            base(DEBIAN, wanted={"python": path})
        assert (caught.value.where, caught.value.message.endswith(path)) == ("/usr/bin/python3", True)


def test_of_too_many_pythons_one_must_be_named() -> None:
    many = [file for number in range(70) for file in python(f"opt/p{number}")]
    with pytest.raises(UsageError, match="more than 64 Pythons"):
        base(many)
    assert base(many, wanted={"python": "/opt/p7/bin/python3"}).site_packages[0].startswith("/opt/p7/")


@pytest.mark.parametrize("layers", [[], [[("usr/bin/python3", "#!/bin/sh\n", "x")]], [DEBIAN, [("usr", "", "f")]]])
def test_no_python_is_an_error(layers: list[list[File]]) -> None:
    with pytest.raises(UsageError, match="holds no Python"):
        base(*layers)


def test_no_engine_is_none() -> None:
    one = base(DEBIAN)
    assert (one.engine, one.version, one.cuda, one.installed) == ("", "", "", {})


def test_two_engines_in_one_python_are_told_apart_by_the_command_or_by_the_reader() -> None:
    both = [*DEBIAN, *package(DIST, "vllm", "0.32.0"), *package(DIST, "sglang", "0.5.9")]
    assert base(both, Cmd=["python3", "-m", "sglang.launch_server"]).engine == "sglang"
    assert base(both, wanted={"serving": "vllm"}).engine == "vllm"
    with pytest.raises(UsageError, match=r"both vllm 0\.32\.0 .* and sglang"):
        base(both)
    with pytest.raises(UsageError, match="does not hold sglang"):
        base([*DEBIAN, *package(DIST, "vllm", "0.32.0")], wanted={"serving": "sglang"})


def test_a_python_that_lies_is_refused() -> None:
    lying = [VENV[0], ("opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.13.1\n", "f")]
    with pytest.raises(VerifyError, match=r"of Python 3\.13, and its program is Python 3\.12"):
        base([*DEBIAN, *lying], Env=VENV_PATH)
    with pytest.raises(VerifyError, match="for linux/arm64, and its Python is for amd64"):
        base(python(machine=X86))
    with pytest.raises(VerifyError, match="METADATA of vllm, and no such package"):
        base([*DEBIAN, package(DIST, "vllm", "0.33.0")[0]])


def test_torch_says_its_cuda_and_libc_its_version() -> None:
    torch: list[File] = [*package(DIST, "torch", "2.14.0"), (f"{DIST}/torch/version.py", "cuda: str = '13.0'\n", "f")]
    libc: File = (
        "usr/lib/aarch64-linux-gnu/libc.so.6",
        b"\0" * 5000 + b"GNU C Library (Ubuntu GLIBC 2.39-0ubuntu8) stable release version 2.39.\n",
        "x",
    )
    release: list[File] = [
        ("etc/os-release", "../usr/lib/os-release", "l"),
        ("usr/lib/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\n', "f"),
    ]
    one = base([("lib", "usr/lib", "l"), *DEBIAN, *torch, libc, *release])
    assert (one.cuda, one.glibc, one.system) == ("13.0", "2.39", "ubuntu 24.04")


def test_pythonpath_comes_first_and_the_users_folder_before_the_systems() -> None:
    passwd: File = ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n", "f")
    own, extra = "home/me/.local/lib/python3.12/site-packages", "srv/python"
    files = [
        *DEBIAN,
        passwd,
        *package(DIST, "vllm", "0.1"),
        *package(own, "vllm", "0.2"),
        *package(extra, "vllm", "0.3"),
    ]
    assert base(files, User="1000:1000", Env=["PYTHONPATH=/srv/python"]).version == "0.3"
    assert base(files, User="1000:1000").version == "0.2"
    assert base(files, User="1000:1000", Env=["PYTHONNOUSERSITE=1"]).version == "0.1"


@pytest.mark.parametrize("inherits", [False, True])
def test_an_environment_by_itself_has_no_folder_of_its_user(*, inherits: bool) -> None:
    passwd: File = ("etc/passwd", "me:x:1000:1000::/home/me:/bin/sh\n", "f")
    config = f"home = /usr/bin\ninclude-system-site-packages = {inherits}\nversion = 3.12.3\n"
    venv: list[File] = [VENV[0], (VENV[1][0], config, "f"), *package(VENV_SITE, "vllm", "0.1")]
    own = package("home/me/.local/lib/python3.12/site-packages", "einops", "0.2")
    found = base([*DEBIAN, passwd, *venv, *own], User="1000", Env=VENV_PATH)
    assert ("einops" in found.installed) is inherits


def test_two_releases_in_one_folder_are_told() -> None:
    one = base([*DEBIAN, *package(DIST, "vllm", "0.32.0"), *package(DIST, "vllm", "0.33.0")])
    assert one.remarks == (f"/{DIST} holds two releases of vllm: 0.32.0 and 0.33.0",)


@pytest.mark.parametrize(
    "start", [{"Env": ["PATH=/../../../../root/own/bin"]}, {"Cmd": ["/../../../root/own/bin/python3"]}]
)
def test_no_path_leads_out_of_the_image(start: dict[str, list[str]]) -> None:
    venv = [*VENV, *package(VENV_SITE, "vllm", "0.33.0")]
    own: list[File] = [(path.replace("opt/venv", "root/own"), content, kind) for path, content, kind in venv]
    more: File = ("root/own/lib/python3.12/site-packages/a.pth", "../../../../../../opt/x\n", "f")
    one = base([*DEBIAN, *own, more, ("opt/x/einops-1.dist-info/METADATA", "Name: einops\nVersion: 1\n", "f")], **start)  # type: ignore[arg-type]
    assert one.interpreter == "/root/own/bin/python3"
    assert one.site_packages == ("/root/own/lib/python3.12/site-packages",)
    assert one.search[1:] == ("/opt/x",)
    assert one.installed["einops"].folder == "/opt/x"
    assert one.strange is None


def test_a_path_goes_up_from_the_end_of_its_links() -> None:
    files: list[File] = [("link", "/opt/deep/er", "l"), ("opt/deep/er/x", "", "f"), *python("opt/deep")]
    assert base(files, Env=["PATH=/link/../bin"]).interpreter == "/opt/deep/bin/python3"


def test_a_home_of_an_environment_leads_to_no_folder_outside() -> None:
    config = "home = /../../usr/bin\ninclude-system-site-packages = true\nversion = 3.12.3\n"
    venv: list[File] = [("opt/venv/bin/python3", elf(), "x"), ("opt/venv/pyvenv.cfg", config, "f")]
    one = base([*python(), *package("usr/lib/python3.12/site-packages", "vllm", "0.33.0")], venv, Env=VENV_PATH)
    assert one.installed["vllm"].folder == "/usr/lib/python3.12/site-packages"


def test_a_control_character_in_a_path_is_refused() -> None:
    site = "usr/lib/python3.12/site-packages"
    with pytest.raises(VerifyError, match="at a path that none has"):
        base(
            [
                *python(),
                *package(site, "vllm", "0.33.0"),
                (f"{site}/a\x1b.dist-info/METADATA", "Name: a\nVersion: 1\n", "f"),
            ]
        )

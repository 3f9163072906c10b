"""Families: packages that do not belong together, or not to this machine. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from packaging.version import Version

from gb10.serving.doctor.diagnosis import Verdict
from gb10.serving.doctor.error_case import ENGINES, Case, distribution_of
from gb10.serving.doctor.log_exceptions import Frame
from gb10.serving.doctor.option_names import option_of_this_part, option_with
from gb10.serving.doctor.symbol_names import owner_of, readable_symbol

MISSING: Final = re.compile(r"(?P<library>lib[\w+-]{1,60}\.so(?:\.\d{1,4}){0,3}): cannot open shared object file")
CUDA_LIBRARIES: Final = re.compile(
    r"lib(?P<name>cudart|cublas|cublasLt|cufft|cusparse|nvrtc|nvJitLink|cusolver|curand|cupti|npp\w*)\.so\.(?P<major>\d+)"
)
WHEELS: Final = {
    "cudart": "nvidia-cuda-runtime",
    "cublas": "nvidia-cublas",
    "cufft": "nvidia-cufft",
    "cusparse": "nvidia-cusparse",
    "nvrtc": "nvidia-cuda-nvrtc",
    "nvJitLink": "nvidia-nvjitlink",
    "cusolver": "nvidia-cusolver",
    "curand": "nvidia-curand",
    "cupti": "nvidia-cuda-cupti",
    "npp": "nvidia-npp",
}
"""The distribution on PyPI that brings a library of CUDA 13, by the begin of the library's name."""
LOADED: Final = re.compile(r"Could not load this library: (?P<file>/\S{3,300})|\blib(?P<name>[a-z]\w{2,30}) loading\b")
"""What says which package's library the loader was asked for, where torch alone called the loader."""
TORCH_OF_CUDA: Final = ("libtorch_cuda.so", "libc10_cuda.so", "libtorch_cuda_linalg.so")
NO_CUDA: Final = re.compile(r"Could not run 'aten::[\w.]{2,60}' with arguments from the 'CUDA' backend")
DRIVER: Final = ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so")
OF_A_LIBRARY: Final = re.compile(
    r"(?P<file>/\S{1,300}\.so\S{0,40}): symbol (?P<symbol>[\w.@]{2,300}), version (?P<version>\S{1,60}) not defined in "
    r"file (?P<library>\S{2,80})"
)
SYMBOL: Final = re.compile(r"(?:(?P<file>/\S{1,300}\.so\S{0,40}): )?undefined symbol: (?P<symbol>[\w.@]{2,300})")
PACKAGE_OF_FILE: Final = re.compile(r"-packages/(?P<package>\w{1,60})")
ANOTHER_CPU: Final = re.compile(
    r"wrong ELF class|[Ee]xec format error|cannot open shared object file: No such file.{0,20}ld-linux-x86"
    r"|ELF load command|incompatible architecture|x86_64.{0,40}aarch64|is not a supported wheel on this platform"
)
GLIBC: Final = re.compile(r"version [`'](?P<name>GLIBC(?:XX)?_[\d.]{1,12}|CXXABI_[\d.]{1,12})'? not found")
NAME: Final = re.compile(
    r"cannot import name ['\"](?P<name>\w{1,80})['\"] from (?:partially initialized module )"
    r"?['\"](?P<module>[\w.]{1,150})['\"]"
)
ATTRIBUTE: Final = re.compile(
    r"module ['\"](?P<module>[\w.]{1,150})['\"] has no attribute ['\"](?P<name>\w{1,80})['\"]"
)
KEYWORD: Final = re.compile(
    r"got an unexpected keyword argument ['\"](?P<name>\w{1,80})['\"]|missing \d+ required (?:positional|"
    r"keyword-only) argument"
)
NO_MODULE: Final = re.compile(r"No module named ['\"](?P<module>[\w.]{1,150})['\"]")
NO_METADATA: Final = re.compile(r"No package metadata was found for (?:The ['\"])?(?P<name>[\w.-]{1,80})")
ARCHITECTURE: Final = re.compile(
    r"[Mm]odel architectures? (?:\[?['\"]?)(?P<name>[A-Z]\w{3,80})(?:['\"]?\]?).{0,40}(?:not supported|"
    r"failed to be inspected)"
    r"|architecture (?P<other>[A-Z]\w{3,80}) is not supported"
    r"|No (?:\w{2,30} ){1,2}registered for (?:the )?(?:architecture|model)s?:? \[?['\"]?(?P<part>[A-Z]\w{3,80})"
)
MODEL_TYPE: Final = re.compile(r"model type [`'\"](?P<name>[\w.-]{1,60})[`'\"] but Transformers does not recognize")
STANDARD: Final = frozenset(
    ("importlib", "concurrent", "asyncio", "multiprocessing", "contextlib", "threading", "runpy", "re")
)
EVIDENCE_ABI: Final = "the namespace of the symbol; sglang PR#30562, eugr#135, vllm#13608"


def library_of_another_cuda(case: Case) -> Verdict | None:
    """A shared library whose number says which CUDA the wheel was built for."""
    found = MISSING.search(case.text)
    numbered = CUDA_LIBRARIES.match(found["library"]) if found else None
    if found is None or numbered is None:
        return None
    major = int(numbered["major"])
    torch = case.version("torch") or ""
    who = _wanting(case)
    asked = [found for one in case.chain for found in [LOADED.search(one.text)] if found] if who == "torch" else []
    if asked:
        who = _wanting(case, asked[0]["file"]) if asked[0]["file"] else asked[0]["name"]
    wheel = next((one for name, one in WHEELS.items() if numbered["name"].startswith(name)), "nvidia-cuda-runtime")
    plain = (
        f"The torch that is there is {torch}{', the one for CPUs' if torch.endswith('+cpu') else ''}." if torch else ""
    )
    if major >= 13:
        action = f"Install torch and everything else from one index of CUDA 13 (cu130): {wheel} 13 brings this library."
        if asked:
            action = (
                f"Take the {who} that was built for the CUDA of the torch that is there (python -c 'import torch; "
                f"print(torch.version.cuda)'): the index cu126, cu128 or cu130 of torch has one for each. If that is "
                f"13, only the library is missing: pip install {wheel}, and its folder (…/nvidia/cu13/lib) in "
                "LD_LIBRARY_PATH."
            )
    else:
        action = (
            "Take wheels for CUDA 13 (index cu130) and aarch64, which is what a GB10 needs; PyPI's default of older "
            "releases is CUDA 12. Do not install CUDA 12 beside it."
        )
    if "while loading shared libraries" in case.text and not case.raised.frames:
        action = (
            "It is a program of its own, no wheel: build it with CUDA 13 (or take its image for it), or bring CUDA "
            f"{major}'s libraries along and name their folder (LD_LIBRARY_PATH, `ldd PROGRAM | grep 'not found'`): an "
            "image without -devel, or with CUDA inside of conda, does not have them where the loader looks."
        )
    return Verdict(
        code="library-of-another-cuda",
        meaning=(
            f"{who} was built for CUDA {major}: it asks for {found['library']}, and this environment has "
            f"another CUDA. {plain}"
        ).strip(),
        action=action,
        evidence="the number of the library's name is CUDA's major version; vllm#36099, vllm#31018, vllm#52300",
    )


def torch_for_cpus(case: Case) -> Verdict | None:
    """A part of CUDA's torch is not there: torch for CPUs took its place."""
    found = MISSING.search(case.text)
    cpu = (case.version("torch") or "").endswith("+cpu")
    names = found is not None and found["library"].startswith(TORCH_OF_CUDA)
    says = "not compiled with CUDA enabled" in case.text or NO_CUDA.search(case.text) is not None
    if not (names or says or (cpu and case.raised.name == "ImportError")):
        return None
    pin = case.fitting("torch")
    return Verdict(
        code="torch-for-cpus",
        meaning=(
            f"torch for CPUs is installed in place of the one for CUDA: {found['library'] if found else 'CUDA'} is "
            "part of the other one."
        ),
        action=" ".join(
            filter(
                None,
                (
                    (
                        "Install torch from the index of CUDA 13 (https://download.pytorch.org/whl/cu130) after "
                        "everything else, or pin it for the whole installation (uv: --override; pip: a constraints "
                        "file). On aarch64 PyPI's torch may be the one for CPUs."
                    ),
                    pin,
                ),
            )
        ),
        evidence="the library is in the CUDA wheel of torch alone; eugr PR#263, eugr#265",
    )


NO_GPU: Final = re.compile(
    r"\b(?:no|(?:cannot|could not|can't|failed to) (?:find|detect|see) (?:any|an?)) "
    r"(?:(?:NVIDIA|CUDA|torch|compatible|supported) ){0,2}(?:GPUs?|accelerators?)\b(?! (?:memory|kernel))"
    r"|only (?:works|runs|supported) on (?:NVIDIA|CUDA)(?:,? (?:and|or|NVIDIA|AMD|Intel|Apple|CUDA|ROCm)){0,6} GPUs?",
    re.IGNORECASE,
)
A_GPU: Final = re.compile(
    r"\b(?:GPU|rank|cuda:|local_rank)[ :=]?\d|\b[1-9]\d{0,4} (?:\w{1,20} )?(?:GPUs?|devices?|accelerators?|ranks?|free|"
    r"required|used)\b|\b\d[\d.]{0,8} ?[GMT]i?B\b|\bRTX\b|\bGB\d\d\b|\b[ABGH]{1,2}\d00\b|"
    r"parallel|placement group|\bnode\b|\bRay\b|data.?cent(?:er|re)",
    re.IGNORECASE,
)
"""What counts, names or measures a GPU, or speaks of one of several nodes: torch sees one, or nobody asked it."""


def torch_sees_no_gpu(case: Case) -> Verdict | None:
    """A program that asked torch for a GPU, and was told that there is none."""
    said = case.first_line
    of_another_kind = re.search(r"sm_?\d|SM ?\d|capabilit", said) or A_GPU.search(case.text)
    if not case.raised.type or NO_GPU.search(said) is None or of_another_kind:
        return None
    return Verdict(
        code="torch-sees-no-gpu",
        meaning=(
            f"The program asked torch for a GPU, and torch sees none: {said[:240].rstrip('.')}. Where nvidia-smi shows "
            "the GB10 in this very environment, torch is at fault: one for CPUs (PyPI's for aarch64, or one that a "
            "later installation brought) or for another CUDA took the place of the one for CUDA 13."
        ),
        action=(
            "python3 -c 'import torch; print(torch.__version__, torch.version.cuda)': with +cpu or None install torch "
            "from the index of CUDA 13 (https://download.pytorch.org/whl/cu130) after everything else, or take an "
            "image for the Spark (NGC's PyTorch). Where nvidia-smi fails, too, the container was started without "
            "--gpus all."
        ),
        evidence="programs decide it by torch.cuda.is_available(); unsloth#3553, unsloth PR#9281",
    )


def no_driver_in_the_container(case: Case) -> Verdict | None:
    """A library of the driver is not there, or no GPU is seen."""
    found = MISSING.search(case.text)
    library = found["library"] if found and found["library"].startswith(DRIVER) else None
    seen = re.search(
        r"Found no NVIDIA driver|No CUDA GPUs are available|Failed to infer device type|no CUDA-capable "
        r"device|NVIDIA Driver was not detected"
        r"|NVML: Driver Not Loaded|libcuda\.so\S{0,12} not found",
        case.text,
    )
    if library is None and seen is None:
        return None
    return Verdict(
        code="no-driver-in-container",
        meaning=(
            f"The process sees no GPU or driver ({library or (seen[0] if seen else '')}). The driver's "
            f"libraries come from the host, by NVIDIA's container toolkit."
        ),
        action=(
            "Start the container with --gpus all (CDI: --device nvidia.com/gpu=all); in compose a reservation of "
            "driver nvidia; in Kubernetes nvidia.com/gpu with runtimeClassName nvidia. If nvidia-smi fails on the "
            "host, too, install the driver and the toolkit there."
        ),
        evidence="libcuda.so.1 and libnvidia-ml.so.1 are no part of any image; AEON#5, docs/run.md",
    )


OF_A_CHIP: Final = re.compile(
    r"(?:(?<![A-Za-z])sm|(?<![A-Z])S[Mm])_?\d{2,3}(?!\d)(?:[af](?![a-z\d]))?"
    r"|(?:(?<![A-Za-z])(?:hopper|blackwell|ampere)|(?<![A-Z])(?:Hopper|Blackwell|Ampere|HOPPER|BLACKWELL|AMPERE))"
    r"(?![a-z])"
)
"""A word of a function's name, in snake case or camel case, that says for which GPUs it is."""


def abi_of_another_torch(case: Case) -> Verdict | None:
    """A symbol that the library at hand has not: its namespace says which package it belongs to."""
    versioned = OF_A_LIBRARY.search(case.text)
    if versioned is not None:
        who = _wanting(case, versioned["file"])
        return Verdict(
            code="mixed-wheels",
            meaning=(
                f"{who} was built with a newer release of {versioned['library']} than the one that is loaded: that one "
                f"has no {versioned['symbol']}."
            ),
            action=(
                f"Which {versioned['library']} is loaded: `ldd` of the file, LD_LIBRARY_PATH and conda's lib folder "
                "come before the wheel's own. Take a newer one (its nvidia-* wheel or CUDA toolkit), or a release of "
                f"{who} that was built for the one that is there."
            ),
            evidence="the dynamic linker's own message",
        )
    found = SYMBOL.search(case.text)
    if found is None:
        return None
    owner, name = owner_of(found["symbol"]), readable_symbol(found["symbol"])
    who = _wanting(case, found["file"])
    if owner == "torch":
        version = case.version("torch")
        pin = case.fitting("torch") or _torches(case, who)
        here = f" The torch that is there is {version}." if version else ""
        return Verdict(
            code="mixed-wheels",
            meaning=(
                f"{who} was compiled for another torch: it needs {name}, which this torch has not "
                f"({found['symbol']}).{here}"
            ),
            action=f"Install the torch that {who} was built for, or a {who} that was built for this torch. "
            f"{pin or 'Its METADATA (Requires-Dist: torch) names it.'} "
            "Install all from one index and one lock; a later pip install may have changed torch.",
            evidence=EVIDENCE_ABI,
        )
    if owner is None and not found["file"]:
        return None
    chip = OF_A_CHIP.search(name)
    if owner is None and chip is not None:
        return Verdict(
            code="built-without-a-part",
            meaning=(
                f"{who} was built without its own function {name}: kernels for {chip[0]} were left out for this list "
                "of arches, and another file of the same build calls them. No other package has it: it is a fault of "
                f"this build of {who}, or of its release for 12.x."
            ),
            action=(
                f"Take a newer release of {who}, or a wheel or image that was built for all arches. For a build of "
                f"your own: after a change of TORCH_CUDA_ARCH_LIST compile in a clean folder; a list with the arch of "
                f"{chip[0]} beside 12.1a fills the gap until the release is mended."
            ),
            evidence="an arch in the name of the symbol; vllm PR#28938",
        )
    what = {"cuda": "CUDA", "nccl": "NCCL", "python": "Python", "glibc": "the C library"}.get(
        owner or "", owner or "a library that it links"
    )
    return Verdict(
        code="mixed-wheels",
        meaning=(
            f"{who} was built against another release of {what}: it needs {name} ({found['symbol']})."
            if owner
            else f"{who} needs {name} ({found['symbol']}), and nothing that is loaded has it: it was built against "
            "another release of a library that it links, or without a part of its own. The name does not say which."
        ),
        action=(
            f"Take wheels that were built together: {who} and {what} of one release and one index. "
            f"LD_LIBRARY_PATH may also put an older library before the wheel's own."
        ),
        evidence=EVIDENCE_ABI,
    )


def _torches(case: Case, package: str) -> str:
    """Which torch each release of a package was built for, as the engines that require both say."""
    pairs = {}
    for engine in case.releases.engines.values():
        for one in engine:
            own = {**one.requires, one.engine: f"=={one.version}"}
            wanted, torch = own.get(distribution_of(package), ""), own.get("torch", "")
            if wanted.startswith("==") and torch.startswith("=="):
                pairs[wanted[2:]] = torch[2:]
    newest = sorted(pairs.items(), key=lambda one: Version(one[0]))[-8:]
    shown = ", ".join(f"{release} with {torch}" for release, torch in newest)
    return f"{distribution_of(package)} belongs to one torch: {shown}." if shown else ""


def wheel_of_another_machine(case: Case) -> Verdict | None:
    """A file for another CPU, a newer C library or another Python."""
    libc = GLIBC.search(case.text)
    cpu = ANOTHER_CPU.search(case.text)
    if libc is not None:
        return Verdict(
            code="wheel-of-another-system",
            meaning=(
                f"A library needs {libc['name']}, which this system's C or C++ library has not: it was built "
                f"on a newer system."
            ),
            action=(
                "Take an image of Ubuntu 24.04 or newer, or a wheel for an older manylinux. In conda, its own "
                "libstdc++ comes before the system's."
            ),
            evidence="symbol versions of glibc and libstdc++",
        )
    if cpu is None:
        return None
    return Verdict(
        code="wheel-of-another-cpu",
        meaning=f"This file is for another CPU ({cpu[0]}); a GB10 is aarch64.",
        action=(
            "Pull or install for linux/arm64 (docker pull --platform linux/arm64; wheels with aarch64 in their "
            "name). ./build.py verify FILE names the files of another CPU."
        ),
        evidence="the ELF header's machine; a kernel refuses to run it",
    )


def value_used_as_a_name(case: Case) -> Verdict | None:
    """A name that a module has not, and that is the value of an option of this log: the code took it for one."""
    found = ATTRIBUTE.search(case.text)
    option = option_with(case, found["name"]) if found else ""
    if found is None or "dtype" not in option or found["name"] in ("auto", "none"):
        return None  # backends and devices are names of modules, which may be missing
    own = case.caller("torch")
    others = sorted(one for one, options in case.choices.items() if option in options and one != found["name"])
    beside = f" The releases have {', '.join(others[:8])}, too." if others else ""
    return Verdict(
        code="value-not-known",
        meaning=(
            f"{found['name']} is the value of {option} in this log, and the code on this path takes it for a name of "
            f"{found['module']}, which has none such{f' ({own.path})' if own else ''}: the option knows the value, and "
            "the kernel or backend that was chosen here does not. No package is too old for it."
        ),
        action=(
            f"Another value of {option}, or leave it out, so that the engine chooses (caches: auto or fp8).{beside} Or "
            "another backend that has this value: --attention-backend, --moe-backend or --linear-backend, whichever "
            "calls. A newer release may refuse it at the start, or serve it on 12.1."
        ),
        evidence="the name in the message is a value of the command's own option; vllm#43562",
    )


def packages_of_different_times(case: Case) -> Verdict | None:
    """A name that another package has not (yet, or any more), or that one package refuses to another."""
    name, attribute = NAME.search(case.text), ATTRIBUTE.search(case.text)
    if name or attribute:
        found = name or attribute
        assert found is not None  # noqa: S101 - one of both
        module, what = found["module"], found["name"]
        caller = next((one for one in reversed(case.packages) if one != module.split(".")[0]), "")
        return _different_times(case, caller, module.split(".")[0], f"{module} has no {what}")
    if case.raised.name == "TypeError" and KEYWORD.search(case.text) and len(case.raised.frames) > 0:
        called = re.match(r"(?:(?P<name>[\w.<>]{1,120})\(\))", case.text)
        return _between_last_two(case, f"{called['name'] if called else 'a function'} takes other arguments")
    kind = case.raised.type.split(".")
    read = case.raised.frames[-1].function in READS_A_NAME if case.raised.frames else False
    engine = next((one for one in reversed(case.packages) if one in ENGINES), "")
    if engine and read and case.packages[-1] == kind[0] and distribution_of(kind[0]) in DEPENDENCIES:
        name = re.search(r"['\"`](?P<name>\w{2,60})['\"`]", case.text)
        what = f"the {kind[0]} that is here does not hand out {name['name'] if name else 'a name'} as {engine} reads it"
        return _different_times(case, engine, kind[0], f"{what} ({kind[-1]})")
    if (
        len(kind) > 2
        and case.packages
        and kind[0] not in STANDARD
        and kind[0] != case.packages[-1]
        and distribution_of(kind[0]) in DEPENDENCIES
    ):
        return _different_times(case, case.packages[-1], kind[0], f"{kind[0]} raises {kind[-1]}")
    if case.raised.name == "AttributeError" and re.search(r"^\S{1,80} (?:object )?has no attribute ", case.text):
        return _between_last_two(case, case.first_line[:160])
    return None


READS_A_NAME: Final = ("__getattr__", "__getattribute__")
"""Functions by which a class of a package hands out a name: their own exception is no ordinary fault."""
DEPENDENCIES: Final = frozenset(
    ("transformers", "huggingface-hub", "tokenizers", "compressed-tensors", "xgrammar", "mistral-common", "pydantic")
)
"""Packages whose releases of another time break an engine; errors of theirs that are raised for other reasons have
families of their own, which come first."""
ORDINARY: Final = re.compile(
    r"HfHub|Repository|Entry|Gated|Connection|Timeout|HTTP|Offline|Validation|LocalToken|BadRequest|"
    r"Revision|FileMetadata|Strict"
)


def _between_last_two(case: Case, what: str) -> Verdict | None:
    """Where a traceback goes from one package to another just before the error."""
    packages = [one for one in case.packages if one not in STANDARD]
    if len(packages) < 2 or distribution_of(packages[-1]) not in (
        *DEPENDENCIES,
        "torch",
        "triton",
        "flashinfer-python",
        "vllm",
        "sglang",
    ):
        return None
    if packages[-1] in ("vllm", "sglang", "torch"):
        return None
    return _different_times(case, packages[-2], packages[-1], what)


def _different_times(case: Case, caller: str, called: str, what: str) -> Verdict | None:
    if ORDINARY.search(case.raised.name):
        return None
    distribution = distribution_of(called)
    version = case.version(distribution)
    release, newer = case.release, case.newer
    fitting = case.fitting(distribution)
    here = f"{distribution} {version}" if version else distribution
    who = (
        caller
        if caller not in ("vllm", "sglang")
        else (f"{case.engine_name} {release.version}" if release else case.engine_name)
    )
    requires = release.requires.get(distribution) if release else None
    newest = release.newest.get(distribution) if release else None
    pin = requires if requires and requires.startswith("==") else f"=={newest}" if newest else None
    pinned = requires is not None and requires.startswith("==") and caller not in ("", case.engine, "vllm", "sglang")
    parts = [
        f"{distribution} is pinned by {case.engine_name} ({pin}): if that is what is installed, {caller} is the older "
        f"of both, and a newer {distribution_of(caller)} is what to install (pip install -U, in the same environment)."
        if pinned
        else f"Install {distribution}{pin}."
        if pin
        else (
            f"Install the release of {distribution} that {who or 'the program'} was made for: its METADATA "
            f"(Requires-Dist) names the range."
        ),
        (f"Or take {case.engine_name} {newer.version} ({newer.date}) or newer, which was made for newer packages.")
        if newer
        else "",
        "An older package than required shows as a name that is not there yet: then upgrade it."
        if "has no" in what
        else "",
    ]
    return Verdict(
        code="package-of-another-time",
        meaning=f"{who or 'A program'} and {here} are of different times: {what}. {fitting}".strip(),
        action=" ".join(filter(None, parts)),
        evidence=(
            "where the traceback goes from one package to the other; dates and requirements of PyPI, "
            "recipes/doctor/releases.json"
        ),
    )


def not_installed(case: Case) -> Verdict | None:
    """A module or a distribution that is not there."""
    module, metadata = NO_MODULE.search(case.text), NO_METADATA.search(case.text)
    if not module and not metadata:
        return None
    name = module["module"] if module else metadata["name"] if metadata else ""
    first = name.split(".")[0]
    if "." in name:  # Python names the first part alone when that is missing
        caller = next((one for one in reversed(case.packages) if one != first), "")
        return _different_times(case, caller, first, f"{first} has no module {name}")
    return Verdict(
        code="not-installed",
        meaning=f"{distribution_of(first)} is not installed in this environment.",
        action=(
            f"Install {distribution_of(first)}, in the same environment "
            f"({case.fitting(distribution_of(first)) or 'and let its release fit'}), or take an image that has it. If "
            "it was installed, this is another Python or user: a venv that is not active, ~/.local of another user, "
            "PYTHONPATH (`python3 -c 'import sys; print(sys.executable, sys.path)'`, `pip show`). A model's own code "
            "(trust_remote_code) may need packages that no engine brings."
        ),
        evidence="Python's own message; unsloth#3825",
    )


def model_is_too_new(case: Case) -> Verdict | None:
    """A model that this release, or its transformers, does not know."""
    kind, architecture = MODEL_TYPE.search(case.text), ARCHITECTURE.search(case.text)
    if not kind and not architecture:
        return None
    if architecture and case.engine in ("trtllm", "tensorrt_llm"):
        name = architecture["name"] or architecture["other"] or architecture["part"]
        legacy = any("tensorrt_llm/models/" in frame.file for frame in case.raised.frames)
        return Verdict(
            code="model-not-known",
            meaning=(
                f"{'The legacy engine (backend tensorrt)' if legacy else 'This backend'} of TensorRT-LLM does "
                f"not know {name}."
            ),
            action=(
                "Leave out --backend tensorrt: the default backend, pytorch, has its own and newer list of "
                "models. If it is the default already, take a newer release."
            )
            if legacy
            else "Take a newer release of TensorRT-LLM.",
            evidence="tensorrt_llm/models is the list of the legacy engine; TensorRT-LLM#15941",
        )
    release, newer = case.release, case.newer
    here = f"{case.engine_name} {release.version}" if release else case.engine_name
    if kind:
        return Verdict(
            code="model-not-known",
            meaning=(
                f"The installed transformers does not know the model type {kind['name']}: it is older than the "
                f"model. {case.fitting('transformers')}"
            ).strip(),
            action=(
                f"Take a newer transformers that has {kind['name']}, within what {here} allows; else a newer release "
                f"of the engine{f' ({newer.version} is the next)' if newer else ''}. If the repository brings its "
                "own code: --trust-remote-code."
            ),
            evidence="transformers' own registry of model types; vllm#33580",
        )
    name = (architecture["name"] or architecture["other"] or architecture["part"]) if architecture else ""
    return Verdict(
        code="model-not-known",
        meaning=f"{here} has no model class {name}.",
        action=(
            f"Take a newer release{f' ({newer.version} is the next)' if newer else ''}, or install the plugin that "
            f"registers {name} in the same environment; the model's card names it. If the class is listed and failed "
            "to be inspected, an import of it failed: read the lines before."
        ),
        evidence="the engine's own registry of models; sglang#4689, Spark-X2.5#6",
    )


ARGUMENTS: Final = re.compile(
    r"^(?P<called>[\w.<>]{1,120})\(\) (?:got an unexpected keyword argument ['\"](?P<name>\w{1,80})['\"]"
    r"|got multiple values for (?:keyword )?argument ['\"](?P<twice>\w{1,80})['\"]"
    r"|(?:missing|takes) .{1,120}arguments?)"
)
WITHOUT: Final = re.compile(r"^(?:type object )?'(?P<type>\w{1,80})' (?:object )?has no attribute '(?P<name>\w{1,80})'")
ALWAYS: Final = frozenset(("NoneType", "dict", "list", "str", "tuple", "int", "float", "bool", "function", "module"))
DRAFTS: Final = (
    "drafts (speculative decoding)",
    "Start without drafts (--speculative-config, --speculative-algorithm), or with a draft model of another kind.",
)
HOOKS: Final = {
    "speculat|eagle|mtp|nextn|draft|dspark|dflash|medusa": DRAFTS,
    "quantization|marlin|fp8|fp4|awq|gptq|modelopt|compressed": (
        "this quantization",
        "Another checkpoint (with this layer, often lm_head, left unquantized) or another --linear-backend or "
        "--moe-backend; VLLM_NVFP4_GEMM_BACKEND and such left out.",
    ),
    "lora": ("LoRA", "Start without --enable-lora."),
    r"(?:moe|expert|weight|layer)s?/\w*offload|(?:cpu|moe|expert|weight|layer)s?_offload|offloader": (
        "offloading of weights or experts to the CPU",
        "Start without it (--cpu-offload-gb, --offload-backend): a GB10's CPU and GPU have one memory, so it wins "
        "nothing.",
    ),
    "offload|kv_connector|kv_transfer|ec_transfer|disagg|hicache|mem_cache/storage": (
        "offloading or transfer of the KV cache",
        "Start without it (--kv-transfer-config, --kv-offloading-size), or with --no-enable-prefix-caching: models "
        "with Mamba or linear attention have caches of several kinds, which not each connector takes. Where two "
        "servers exchange caches, both need the same model, release, --block-size, --kv-cache-dtype and parallel "
        "sizes.",
    ),
    "multimodal|vision|image|audio": ("images or sound", "Start with --language-model-only, or another model."),
    "attention/|attn|mla/": ("attention", "Another --attention-backend may do without it; --kv-cache-dtype auto, too."),
    "moe": ("experts (MoE)", "Another --moe-backend (SGLang: --moe-runner-backend) may do without it."),
    "mamba|gdn|/fla/": (
        "linear attention",
        "Another --mamba-backend; --mamba-cache-mode and --no-enable-prefix-caching; without drafts.",
    ),
    "compilation/|cuda_?graph|_dynamo|_inductor": (
        "compiled graphs",
        "Start with --enforce-eager once (SGLang: --disable-cuda-graph).",
    ),
    "structured_output|grammar|guided": (
        "structured output",
        "Another --structured-outputs-config backend, or requests without a schema.",
    ),
    "tool_parser|reasoning|function_call": (
        "calls of tools and reasoning",
        "Start without --tool-call-parser and --reasoning-parser once: the model may need another one.",
    ),
    "scheduler|block_pool|kv_cache": (
        "the KV cache and the order of requests",
        "Try --no-enable-prefix-caching and --no-async-scheduling once.",
    ),
    "distributed|parallel_state|communicat": (
        "several GPUs or nodes",
        "Look at the other ranks' logs, too; --disable-custom-all-reduce once.",
    ),
    "loader|weight_utils|load_weights": (
        "reading weights",
        "Is the checkpoint whole (sizes, sha256)? --load-format auto.",
    ),
}
"""What a part of an engine is for, by its path, and what to leave out."""
OF_SGLANG: Final = {
    "speculat|eagle|mtp|nextn|draft|dspark|dflash|medusa": "Start without --speculative-algorithm.",
    "mamba|gdn|/fla/|linear_attn|hybrid": "Start without drafts (--speculative-algorithm) and with "
    "--disable-radix-cache once; other options of this part: --mamba-scheduler-strategy, --linear-attn-backend, "
    "--page-size left out.",
    "hicache|disagg|mem_cache/storage": "Start without --enable-hierarchical-cache or --disaggregation-mode.",
    "structured_output|grammar|guided": "Another --grammar-backend, or requests without a schema.",
    "scheduler|schedule_batch|mem_cache|radix|kv_cache": "Try --disable-radix-cache and --disable-overlap-schedule "
    "once, and leave --page-size out.",
    "multimodal|vision|image|audio": "Send text alone once, or start without --enable-multimodal.",
    "compilation/|cuda_?graph|_dynamo|_inductor": "Start with --disable-cuda-graph once.",
}
"""The same for SGLang, whose options have other names."""
OF_TENSORRT: Final = {
    "moe": "In the file of --extra_llm_api_options: moe_config: {backend: CUTLASS} (TRTLLM is for 10.x alone).",
    "speculat|eagle|mtp|draft": "Start without speculative_config.",
    "attention|attn|mla": "attn_backend: another one of TRTLLM and FLASHINFER; kv_cache_config: {dtype: auto}.",
    "cuda_?graph|compilation|torch_compile": "cuda_graph_config: null and no torch_compile_config once.",
    "autotun": "enable_autotuner: false.",
    "kv_cache|resource_manager|scheduler": "kv_cache_config: {enable_block_reuse: false} and "
    "disable_overlap_scheduler: true once.",
}
"""The same for TensorRT-LLM, whose settings are fields of a file."""
DEEP: Final = 3
"""Innermost frames whose files say which part it is."""
LOOP: Final = re.compile(
    r"^(?:run_scheduler_process|run_event_loop|dispatch_event_loop|event_loop_\w+|run_engine_core|run_busy_loop|"
    r"worker_main|worker_busy_loop|execute_method|collective_rpc|run_method|main|<module>)$"
)
"""Functions of the loop of a process: their file says which process it is, not which part of it failed."""
READS_WEIGHTS: Final = re.compile(r"load_weights|weight_loader|_load_w\d*$|load_\w{0,20}weight")


def part_of(frames: Sequence[Frame], file: str = "") -> tuple[str, str]:
    """What the innermost files, or one file, are for, and what to leave out; empty where their paths do not say."""
    frames = [frame for frame in frames if not LOOP.match(frame.function)]
    inner = [_by_work(frame) for frame in reversed(frames[-DEEP:])] or [file]
    paths = " ".join((*inner, file))
    feature, leave = next(
        (one for path in inner for part, one in HOOKS.items() if re.search(part, path, re.I)), ("", "")
    )
    packages = {frame.package for frame in frames}
    other = next(
        (one for name, one in (("sglang", OF_SGLANG), ("tensorrt_llm", OF_TENSORRT)) if name in packages), None
    )
    if other is None:
        return feature, leave
    trace = f"{paths} {' '.join(frame.function for frame in frames[-DEEP:])}"
    own = next((one for part, one in other.items() if re.search(part, trace, re.I)), "")
    return feature, own or ("" if "--" in leave and "SGLang" not in leave else leave)


def _by_work(frame: Frame) -> str:
    """A file as HOOKS read it: a function that reads weights is of their reading, whatever else its file does."""
    return f"{frame.path} load_weights" if READS_WEIGHTS.search(frame.function) else frame.path


A_LAYER: Final = re.compile(r"Linear(?!\w*WithLoRA)\w{0,20}$|LMHead$|Embedding$")
OF_A_LAYER: Final = re.compile(r"^(?:q?weight(?:_(?!loader)\w{1,30})?|\w{1,20}_scale(?:_inv)?)$")
"""Numbers that quantization names; not a bias, which it leaves alone, nor the engine's own loaders."""


def _layer_that_is_packed(case: Case, last: Frame, kind: str, name: str) -> Verdict:
    """A layer whose numbers are not under the name that the code reads: a quantized one, or one that is not."""
    code = " ".join(frame.code for frame in case.raised.frames[-3:])
    layer = re.search(rf"(?P<layer>\w{{2,60}})\.{name}\b", code)
    own = next((one for one in reversed(case.raised.frames) if one.package != "torch"), last)
    which = f"{layer['layer']} ({kind})" if layer and layer["layer"] != "self" else f"a {kind}"
    return Verdict(
        code="quantized-layer-is-read",
        meaning=(
            f"{own.path}:{own.line} reads {name} of {which}, which has none: a quantized layer keeps its numbers under "
            "other names (qweight, weight_packed, weight_scale), and one that is not quantized has no scales. This "
            "code counts on the other form, and the checkpoint's quantization decides it."
        ),
        action=(
            "Take a checkpoint that leaves this layer as the code wants it (config.json: ignore, "
            "modules_to_not_convert; kv_b_proj, lm_head and routers are mostly left unquantized), or a newer release "
            "or patch that reads this form. Without drafts, where the layer is shared with them."
        ),
        evidence="the class of the layer and the name in the code; vllm#34561, vllm PR#30823",
    )


OF_TORCH: Final = frozenset(("Parameter", "Tensor", "Module", "Linear", "Embedding"))
"""Classes of torch: a package that finds one in place of its own was given it by its caller."""


def parts_of_different_releases(case: Case) -> Verdict | None:
    """Files of one package that do not fit each other, or a model's class without what a feature needs."""
    frames = [one for one in case.raised.frames if one.package and one.package not in (*STANDARD, "torch")]
    arguments = ARGUMENTS.search(case.text) if case.raised.name == "TypeError" else None
    without = WITHOUT.search(case.text) if case.raised.name == "AttributeError" else None
    if not frames or not (arguments or without) or (without and without["type"] in ALWAYS):
        return None
    last = frames[-1]
    release = f"{case.engine_name} {case.release.version}" if case.release else "this release"
    newer = case.newer
    take = f"Take a newer release{f' ({newer.version} is the next)' if newer else ''}"
    if arguments:
        called = arguments["called"].removesuffix(".__init__")
        theirs = called.split(".")[0]
        if "." in called and theirs != last.package and theirs.isidentifier() and theirs[:1].islower():
            return _different_times(case, last.package, theirs, f"{called} takes other arguments than it was given")
        what = f"{called} with {arguments['name']}" if arguments["name"] else f"{called} with other arguments"
        return Verdict(
            code="package-of-another-time",
            meaning=(
                f"{last.path} calls {what}, which {called} of {release} does not take: this file, or the one with "
                f"{called.partition('.')[0]}, is of another release of {last.package} than the rest. One of both was "
                "mounted or patched over the image's own (a mod, -v …), or it is a plugin or a model's own code."
            ),
            action=(
                f"`docker inspect` shows what is mounted. Leave the mounted or patched file out, be it "
                f"{last.path.rpartition('/')[2]} or that of {called.partition('.')[0]}: the image's own fit each "
                f"other. Else take the release that the file was made for"
                f"{f', or go without this part: {own}' if (own := option_of_this_part(case)) else ''}."
            ),
            evidence="the frame that calls, and the arguments that the callee refuses; eugr#238",
        )
    kind, name = (without["type"], without["name"]) if without else ("", "")
    gave = next((one.package for one in reversed(frames) if one.package != last.package), "")
    if kind in OF_TORCH and gave:
        return _different_times(case, gave, last.package, f"{gave} gives it a plain {kind}, which has no {name}")
    if A_LAYER.search(kind) and OF_A_LAYER.match(name):
        return _layer_that_is_packed(case, last, kind, name)
    feature, leave = part_of(frames)
    if case.drafts and not leave:
        leave = DRAFTS[1]
    return Verdict(
        code="feature-without-this-model",
        meaning=(
            f"{last.path} needs {name} of {kind}, which {kind} of {release} has not"
            + (f": {feature} is not made for this model here." if feature else ": the two are not made for each other.")
        ),
        action=(
            f"{leave} {take}, where the model's class may have it; a mounted or patched file may also be the cause."
        ).strip(),
        evidence="the frame that asks, and the class that lacks it; sglang#31236, vllm#52434",
    )


IMPORTS: Final = re.compile(r"(?:from|import) (?P<package>[A-Za-z]\w{1,40})")


def _wanting(case: Case, file: str | None = None) -> str:
    """The package that asks for something: of the library's path, of the frame that imports it, of the engine."""
    found = PACKAGE_OF_FILE.search(file or case.text)
    if found:
        package = found["package"]
        importer = next((one for one in reversed(case.packages) if one not in (*STANDARD, "torch")), "")
        if importer and package.endswith("_cuda") and not package.startswith(importer):
            return importer  # its compiled module lies beside it, under a name of its own
        for ending in ("_cuda", "_2_cuda", "_3_cuda"):
            package = package.removesuffix(ending)
        return package.split(".")[0]
    by_name = re.search(r"/(?P<package>\w{2,40})/_?\w{1,40}\.abi3\.so", file or "")
    if by_name:
        return by_name["package"]
    last = next((one for one in reversed(case.raised.frames) if one.package not in ("", *STANDARD)), None)
    imported = IMPORTS.match(last.code) if last else None
    if imported and imported["package"] != "torch":
        return imported["package"]  # a compiled module has no frame of its own
    return last.package if last else "The package"


BUILDS: Final = re.compile(
    r"(?:^|/)(?:setup|build|conanfile|build_backend|_build\w*)\.py$|/pip-\w+-\w+/|setuptools/build_meta"
)
OF_X86: Final = re.compile(r"cpu|instruct|march|arch|platform|avx|simd|neon|machine", re.I)


def build_script_fails(case: Case) -> Verdict | None:
    """A package's own build script that does not get on with this machine."""
    frames = reversed(case.raised.frames)
    own = next((one for one in frames if BUILDS.search(one.file) and one.package not in ENGINES), None)
    if own is None or case.raised.name in ("CalledProcessError", "KeyboardInterrupt"):
        return None
    cpu = OF_X86.search(f"{own.function} {case.text}")
    return Verdict(
        code="build-script-fails",
        meaning=(
            f"The build script of the package ({own.path}:{own.line} in {own.function or 'its body'}) stops with "
            f"{case.raised.text[:200]}: "
            + (
                "it looks for features of an x86-64 CPU (flags in /proc/cpuinfo), and a GB10 is ARM (aarch64)."
                if cpu
                else "it does not find what it expects of this machine, or of torch, nvcc or setuptools here."
            )
        ),
        action=(
            "Take a release of the package that has a wheel for aarch64 (or names ARM in its notes); else read the "
            "script at this line: it often has a variable or switch for another CPU. --no-build-isolation gives it the "
            "torch that is there."
        ),
        evidence="the frame in the build script; ktransformers#1265",
    )


TOO_OLD: Final = re.compile(
    r"(?P<absent>[A-Za-z][\w.-]{1,40}) with (?:a |the )?(?:minimum )?required version "
    r"(?P<least>\d[\w.]{0,16}) is not installed|"
    r"(?P<old>[A-Za-z][\w.-]{1,40})(?: version| release)?(?: \S{1,20})? is (?:not (?:a )?new enough|too old|outdated)"
    r"|[Pp]lease (?:upgrade|update)(?: your| to a newer)? (?:version of )?[`'\"]?(?P<please>[a-z][\w-]{1,40})"
    r"|(?:requires?|needs?|expects?|depends on) [`'\"]?(?P<name>[A-Za-z][\w-]{1,40})[`'\"]? ?(?:version )?"
    r"(?P<spec>(?:>=|==|~=|<=|>|<) ?v?\d{1,4}\.\d[\w.]{0,16}|v?\d{1,4}\.\d[\w.]{0,14} or (?:newer|later|higher|above))"
)
NOT_PACKAGES: Final = frozenset(
    ("cuda", "python", "compute", "sm", "gpu", "driver", "at", "a", "an", "the", "your", "this", "value", "config")
)


def release_named_by_the_message(case: Case) -> Verdict | None:
    """A package that says itself which release of another one it needs."""
    found = TOO_OLD.search(case.text) if case.raised.type else None
    name = (found["old"] or found["please"] or found["name"] or found["absent"]).strip(".") if found else ""
    if found is None or name.lower() in NOT_PACKAGES or f"--{name.replace('_', '-')}" in case.options:
        return None
    distribution, wanted = distribution_of(name), found["spec"] or (f">={found['least']}" if found["least"] else "")
    version = case.version(distribution)
    here = f" {version} is installed." if version else ""
    below = wanted.startswith(("<", "=="))
    return Verdict(
        code="release-not-allowed",
        meaning=(
            f"The release of {distribution} is not one that this program "
            f"takes{f' ({wanted})' if wanted else ', it is too old'}: {case.first_line[:240]}.{here}"
        ),
        action=(
            f"Install {distribution}{wanted.replace(' ', '') if wanted[:1] in '<>=~' else ''}"
            f"{'' if below else ', a newer version than the one that is there'}, and see that it is in this very "
            f"environment (pip show {distribution}). {case.fitting(distribution)} A package with kernels must be "
            "built for CUDA 13 and aarch64, else the newer one is not seen either."
        ).replace("  ", " "),
        evidence="the program's own check of a release; ComfyUI-KJNodes#709",
    )


COMPILED_ARGUMENTS: Final = re.compile(
    r"[Mm]ismatched number of arguments when calling: `?(?P<tvm>[\w.]{2,80})|"
    r"(?P<torch>[\w:]{2,80})\(\) (?:expected at most|is missing value for argument|Expected a value of type)|"
    r"(?P<bound>\w{2,80})\(\): incompatible function arguments"
)


def compiled_for_another_python(case: Case) -> Verdict | None:
    """Python of one release that calls compiled code of another: they count the arguments differently."""
    found = COMPILED_ARGUMENTS.search(case.text)
    owner = next(
        (one.package for one in reversed(case.raised.frames) if one.package not in ("", "torch", "tvm_ffi")), ""
    )
    if found is None:
        return None
    name = (found["tvm"] or found["torch"] or found["bound"]).removesuffix("(")
    library = distribution_of(owner) if owner else "the library"
    cached = (
        " flashinfer-python, flashinfer-cubin and flashinfer-jit-cache must be of one version (pip list), and a "
        "cache of an older one goes: rm -r ~/.cache/flashinfer."
        if "flashinfer" in library
        else ""
    )
    return Verdict(
        code="mixed-wheels",
        meaning=(
            f"The compiled function {name} of {library} takes other arguments than the Python code that calls it "
            "gives: the two are of different releases (a cache of compiled kernels, a second wheel, or a package "
            "that was updated alone)."
        ),
        action=f"Install {library} and what belongs to it in one version.{cached} {case.fitting(library)}".strip(),
        evidence="the numbers of arguments on both sides; vllm#44081",
    )


NO_OPERATOR: Final = re.compile(
    r"'_OpNamespace' '(?P<library>\w{2,60})' object has no attribute '(?P<name>\w{2,80})'|"
    r"Could not (?:find|run) '(?:(?P<space>\w{2,60})::)?(?P<other>[\w.]{2,80})'|"
    r"(?:operator|op) (?P<full>\w{2,60}::\w{2,80}) does not exist"
)


OF_TRANSFORMERS: Final = re.compile(
    r"'?\b(?P<type>[A-Z]\w{2,60}(?:Tokenizer(?:Fast)?|Processor|FeatureExtractor|TokenizerBase))'?(?: object)? has no "
    r"attribute '?(?P<name>\w{2,80})"
)


def class_of_transformers(case: Case) -> Verdict | None:
    """A class of transformers, by the end of its name, that lacks what a program asks of it."""
    found = OF_TRANSFORMERS.search(case.text) if case.raised.name == "AttributeError" else None
    asks = next((one for one in reversed(case.packages) if one not in (*STANDARD, "transformers")), "")
    if found is None:
        return None
    return _different_times(case, asks or case.engine or "", "transformers", f"{found['type']} has no {found['name']}")


READS_A_MODEL: Final = re.compile(
    r"transformers/(?:(?:tokenization|configuration|processing|image_processing|feature_extraction)_\w{2,40}\.py"
    r"|models/\w{2,40}/(?:tokenization|configuration|processing|image_processing)_\w{2,60}\.py|"
    r"tokenizers?_\w{2,40}\.py)"
)
OF_A_VALUE: Final = re.compile(r"'(?:list|dict|str|int|float|bool|tuple|NoneType)' object|list indices|string indices")
"""What Python says when a value is of another kind than the code counts on."""


def file_of_a_model_not_read(case: Case) -> Verdict | None:
    """A class of transformers that stops within itself, at a value from a file of the model."""
    frames = case.raised.frames
    if not frames or not READS_A_MODEL.search(frames[-1].path) or not OF_A_VALUE.search(case.text):
        return None
    if case.raised.name not in ("AttributeError", "TypeError", "KeyError"):
        return None
    last = frames[-1]
    version = case.version("transformers")
    here = f"transformers {version}" if version else "this transformers"
    which = "config.json" if "configuration" in last.path else "tokenizer_config.json or the processor's file"
    return Verdict(
        code="file-of-a-newer-transformers",
        meaning=(
            f"{here} stops while it reads a file of the model ({which}): {case.first_line[:160]}, at "
            f"`{last.code[:160]}`. The file has a value in a form that this release does not know: mostly a newer "
            "transformers wrote it (5 writes lists where 4 reads mappings), and the model's card names the least one."
        ),
        action=(
            f"Take transformers as new as the file (transformers_version in config.json), with an engine that allows "
            f"it; for a client alone uv's --override lifts a cap. {case.fitting('transformers')} Or the revision of "
            "the model's files before that change, or the field in the form of the release that is here."
        ).replace("  ", " "),
        evidence="the file of transformers that stops; tt-inference-server PR#4507",
    )


MAKES_A_CONFIG: Final = re.compile(
    r"transformers/(?:configuration_\w{2,30}|models/(?!auto/)\w{2,40}/configuration_\w{2,60})\.py"
)
OF_A_CHOICE: Final = re.compile(
    r"\bone of\b|\bmust be in\b|\bnot (?:in|a valid|supported|known)\b|\bun(?:known|recogni[sz]ed|supported)\b|"
    r"\binvalid\b|\bexpected\b",
    re.I,
)
"""Words that refuse a value because the class does not know it; sizes that do not agree are the file's own fault."""


def config_of_a_newer_transformers(case: Case) -> Verdict | None:
    """A value of config.json that transformers' own class of the config refuses while it is made."""
    made = case.raised.frames and MAKES_A_CONFIG.search(case.raised.frames[-1].path)
    refused = made and case.raised.name in ("ValueError", "KeyError")
    if not case.raised.name.startswith("StrictDataclass") and not refused:
        return None
    if not case.raised.name.startswith("StrictDataclassField") and not OF_A_CHOICE.search(case.text):
        return None
    version = case.version("transformers")
    here = f"transformers {version}" if version else "the transformers that is here"
    lines = [line.strip() for line in case.text.splitlines() if line.strip()]
    return Verdict(
        code="file-of-a-newer-transformers",
        meaning=(
            f"{here} refuses a value of the model's config.json: {' '.join(lines)[:400].rstrip('.')}. The file was "
            "mostly written by a newer transformers, which knows this value (transformers_version in config.json); the "
            "weights were not read yet."
        ),
        action=(
            "Take transformers as new as transformers_version in config.json, or newer, with an engine that allows it: "
            f"its next release often does. {case.fitting('transformers')} --hf-overrides cannot help where the class "
            "refuses the value while it is made. A value that no release knows is a fault of the file."
        ).replace("  ", " "),
        evidence="the class of the config that refuses; ml-containers PR#206",
    )


def compiled_part_not_loaded(case: Case) -> Verdict | None:
    """An operator of a compiled library that Python calls and that no library has registered."""
    found = NO_OPERATOR.search(case.text)
    if found is None or case.raised.name not in ("AttributeError", "RuntimeError", "NotImplementedError"):
        return None
    library = found["library"] or found["space"] or (found["full"] or "").partition("::")[0]
    name = found["name"] or found["other"] or (found["full"] or "").rpartition("::")[2]
    owner = next((one for one in reversed(case.packages) if one not in (*STANDARD, "torch")), "the package")
    module = f"{owner}.{library}" if library.startswith("_") else owner
    return Verdict(
        code="compiled-part-not-loaded",
        meaning=(
            f"{owner} calls {name} of its compiled part {library}, which is not loaded or has no such operator: the "
            "library failed to import (an early warning of the log says so), it was built for another platform or "
            "without this part, or Python files and library are of two releases."
        ),
        action=(
            f"python -c 'import {module}' shows why it does not load (a missing library, another torch, an older C "
            f"library). Then install {distribution_of(owner)} with its wheel for this CPU and CUDA, or build it anew "
            "after changing its Python files; no checkout of another release in PYTHONPATH or the working folder. A "
            "plugin for another platform must match the release."
        ),
        evidence="torch's registry of operators; vllm-gaudi PR#998, vllm#6478",
    )


LAZY: Final = re.compile(
    r"Could not import module '(?P<name>\w{2,80})'|Failed to import (?P<module>transformers[\w.]{2,120}) because"
)


def requirements_of_a_class(case: Case) -> Verdict | None:
    """A class of transformers that cannot be imported, because a package that it needs is missing or does not fit."""
    found = LAZY.search(case.text)
    if found is None or NO_MODULE.search(case.text):
        return None
    name = found["name"] or found["module"]
    return Verdict(
        code="package-of-another-time",
        meaning=(
            f"transformers cannot import {name}: a package that this class needs is not there or does not fit "
            "(torch and torchvision of two builds are the most frequent; Pillow, sentencepiece, timm, av, librosa)."
        ),
        action=(
            f"python -c 'from transformers import {name.rpartition('.')[2]}' and the first exception of its traceback "
            "name the package. Install torch, torchvision and torchaudio of one release and one index (cu130), and "
            f"what the model's processor asks for. {case.fitting('transformers')}"
        ).strip(),
        evidence="transformers imports its classes when they are asked for; lmstudio-bug-tracker#1815, T20",
    )


IN_A_LINE: Final = re.compile(
    r"'(?P<package>[a-z]\w{1,40})\.(?P<type>[\w.]{2,100})' object has no attribute '(?P<name>\w{2,80})'"
)


def attribute_in_a_line(case: Case) -> Verdict | None:
    """A class of another package that lacks what was asked, in a line of a log without a traceback."""
    found = IN_A_LINE.search(case.text)
    if found is None or case.raised.frames:
        return None
    who = re.search(r"\b(?P<name>[A-Za-z]\w{2,40}) (?:ERROR|WARNING)", case.text)
    caller = who["name"].lower() if who else ""
    return _different_times(
        case, caller, found["package"], f"{found['package']}.{found['type']} has no {found['name']}"
    )


BUILD_OF_THE_HUB: Final = re.compile(
    r"torch-?(?:\d{2,4}|stable-abi\d{0,4})-(?:cxx(?:11|98)-)?\w{2,12}-(?:aarch64|x86_64)-\w{3,10}"
)
NO_BUILD: Final = re.compile(
    r"does not have (?:a )?(?:build|variant)|cannot find a build variant|no (?:matching |compatible )?(?:build|variant)"
    r"|not (?:have|find) (?:any )?(?:compatible|matching|supported) (?:build|variant|kernel)",
    re.I,
)


def hub_has_no_build(case: Case) -> Verdict | None:
    """A kernel of the Hub that is not built for this torch, CUDA and CPU."""
    if not NO_BUILD.search(case.text) or not (
        BUILD_OF_THE_HUB.search(case.text) or any(one.package == "kernels" for one in case.raised.frames)
    ):
        return None
    tag = BUILD_OF_THE_HUB.search(case.text)
    folder = re.search(r"models--([\w.-]{2,100})|(kernels-community/[\w.-]{2,60})", case.text)
    name = (folder[1] or folder[2]).replace("--", "/") if folder else "This kernel"
    wanted = f" ({tag[0]})" if tag else ""
    return Verdict(
        code="hub-kernel-without-this-build",
        meaning=(
            f"{name} has no build for the torch, CUDA and CPU at hand{wanted}: the Hub has it for some combinations "
            "alone, and few for aarch64 with CUDA 13."
        ),
        action=(
            'Take another attention than that of the Hub: attn_implementation="sdpa" or "eager" (transformers), '
            "another --attention-backend; a model's config.json may name it. Else a torch for which a variant is built "
            "(the repository's folder build/ lists them)."
        ),
        evidence="the tag of torch, CUDA and CPU in the message; unsloth#4867",
    )


PACKAGE_FAMILIES: Final = (
    library_of_another_cuda,
    torch_for_cpus,
    no_driver_in_the_container,
    abi_of_another_torch,
    wheel_of_another_machine,
    model_is_too_new,
    not_installed,
    hub_has_no_build,
    compiled_for_another_python,
    compiled_part_not_loaded,
    requirements_of_a_class,
    class_of_transformers,
    file_of_a_model_not_read,
    config_of_a_newer_transformers,
    attribute_in_a_line,
    value_used_as_a_name,
)
LATE_PACKAGE_FAMILIES: Final = (
    torch_sees_no_gpu,
    release_named_by_the_message,
    packages_of_different_times,
    parts_of_different_releases,
    build_script_fails,
)
"""Those that speak only when no other family does."""

"""What an engine's look-up asks of the machine, answered as a GB10 does; anything else is a name that is not known."""

import importlib
import sys
from types import SimpleNamespace
from typing import Any

from gb10.image.moe.child.shape_only import NAMES, Tensor


class NotKnownError(BaseException):
    """The engine needs something that has no stand-in: no ``except Exception`` may hide that."""


class Unknown:
    """A value that the look-up is not known to need: any use of it is an error with its name."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotKnownError(f"the engine asks for {_name(self)}.{name}")

    def __call__(self, *_: object, **__: object) -> Any:
        raise NotKnownError(f"the engine calls {_name(self)}")

    def __bool__(self) -> bool:
        raise NotKnownError(f"the engine tests {_name(self)}")


def _name(unknown: Unknown) -> str:
    return str(object.__getattribute__(unknown, "_name"))


class Silent:
    """A logger."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Config:
    """Helion's configuration of a kernel: it keeps what it is given."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields


def machine(device: str, shared: int, triton: str, user: str | None) -> dict[str, Any]:
    """Answers by name. ``shared``: bytes of shared memory of a block. ``user``: the user's folder of tuned files."""
    properties = SimpleNamespace(shared_memory_per_block_optin=shared)
    cuda = SimpleNamespace(
        is_available=lambda: True, current_device=lambda: 0, get_device_properties=lambda *_: properties
    )
    platform = SimpleNamespace(
        is_cuda=lambda: True,
        is_cuda_alike=lambda: True,
        is_rocm=lambda: False,
        is_xpu=lambda: False,
        get_device_name=lambda *_: device,
    )
    served = SimpleNamespace(enable_deterministic_inference=False)
    return {
        "torch": SimpleNamespace(
            **NAMES,
            Tensor=Tensor,
            empty=lambda shape, dtype, **_: Tensor(shape, dtype.name),
            cuda=cuda,
            _dynamo=SimpleNamespace(is_compiling=lambda: False),
        ),
        "triton": SimpleNamespace(__version__=triton, cdiv=lambda a, b: -(-a // b)),
        "helion": SimpleNamespace(Config=Config),
        "current_platform": platform,
        "get_device_name": lambda *_: device,
        "envs": SimpleNamespace(VLLM_BATCH_INVARIANT=False, VLLM_TUNED_CONFIG_FOLDER=user),
        "get_global_server_args": lambda: served,
        "get_exec": lambda: SimpleNamespace(deterministic=served),
        "get_config": lambda: None,
        "get_platform": lambda: SimpleNamespace(is_sm90=False),
        "is_gfx1250_supported": lambda: False,
        "on_gfx1250": lambda: False,
        "is_hip": lambda: False,
        "is_cuda": lambda: True,
        "vllm_is_batch_invariant": lambda: False,
        "logger": Silent(),
        "log_info_on_rank0": lambda *_: None,
    }


def standard(module: str, name: str) -> Any:
    """A name of the standard library, else Unknown. ``regex`` is a package with the form of ``re``."""
    module = {"regex": "re"}.get(module, module)
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return Unknown(f"{module}.{name}" if name else module)
    found = importlib.import_module(module)
    return getattr(found, name) if name else found

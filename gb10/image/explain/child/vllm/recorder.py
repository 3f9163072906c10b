"""Records what vLLM asks while it chooses: the kernels of each layer, their answers, and the rest of each list."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch


@dataclass
class Choice:
    """One layer's kernels in the order in which the engine asked; a reason when refused, None when accepted."""

    tried: dict[str, str | None] = field(default_factory=dict)
    asked: tuple[Any, ...] = ()
    """What the kernels were asked with."""
    listed: tuple[type, ...] = ()
    """The engine's list for this kind of layer."""
    accepted: type | None = None
    oracle: Any = None
    """The engine's module that chose experts."""


CHOICES: dict[int, Choice] = {}
"""By id of the module that was under construction."""
CAPABILITY = 121
KEPT: list[torch.nn.Module] = []
"""Modules whose ids are keys above: kept, so that no other gets the same id."""


def current() -> Choice:
    """The choice of the innermost layer under construction: the frame's ``layer`` or ``self``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for name in ("layer", "self"):
            owner = frame.f_locals.get(name)
            if isinstance(owner, torch.nn.Module):
                if id(owner) not in CHOICES:
                    KEPT.append(owner)
                return CHOICES.setdefault(id(owner), Choice())
        frame = frame.f_back
    return Choice()


def listen_to_linear(linear: Any) -> None:
    """Wrap ``is_supported`` and ``can_implement`` of every linear kernel of CUDA, and the engine's lists."""
    names = [name for name in vars(linear) if name.startswith("_POSSIBLE_")]
    kernels = {kernel for name in names for kernel in vars(linear)[name].get(linear.PlatformEnum.CUDA, ())}
    questions = ("is_supported", "can_implement", "get_min_capability")
    asks = {
        (kernel, question): getattr(kernel, question).__func__
        for kernel in kernels
        for question in questions
        if hasattr(kernel, question)
    }
    for (kernel, question), ask in asks.items():
        least = question == "get_min_capability"
        answering = _least(ask) if least else _answering(ask, accepts=question == "can_implement")
        setattr(kernel, question, classmethod(answering))
    resolve = linear._resolve_backend_kernels

    def resolved(possible: list[type], *args: Any, **named: Any) -> Any:
        current().listed = tuple(possible)
        return resolve(possible, *args, **named)

    linear._resolve_backend_kernels = resolved


def _answering(ask: Callable[..., Any], *, accepts: bool) -> Callable[..., Any]:
    def answer(cls: type, *args: Any, **named: Any) -> Any:
        fine, reason = ask(cls, *args, **named)
        choice = current()
        if accepts:
            choice.asked = args
        if not fine or accepts:
            choice.tried[cls.__name__] = None if fine else str(reason)
        choice.accepted = cls if fine and accepts else choice.accepted
        return fine, reason

    return answer


def _least(ask: Callable[..., Any]) -> Callable[..., Any]:
    def answer(cls: type) -> Any:
        least = ask(cls)
        if least > CAPABILITY:
            current().tried[cls.__name__] = f"needs capability {least}"
        return least

    return answer


def listen_to_experts(base: Any) -> None:
    """Wrap ``is_supported_config`` of the base of all expert kernels, and of those that replace it."""
    _wrap_experts(base)

    def created(cls: type, /, **named: Any) -> None:
        super(base, cls).__init_subclass__(**named)
        if "is_supported_config" in vars(cls):
            _wrap_experts(cls)

    base.__init_subclass__ = classmethod(created)


def _wrap_experts(owner: Any) -> None:
    ask = vars(owner)["is_supported_config"]
    ask = inspect.unwrap(getattr(ask, "__func__", ask))

    def answer(cls: type, *args: Any, **named: Any) -> Any:
        fine, reason = ask(cls, *args, **named)
        choice = current()
        choice.asked = (*args, *named.values())
        choice.tried[cls.__name__] = None if fine else str(reason or "the engine gives no reason")
        choice.accepted = cls if fine else choice.accepted
        return fine, reason

    owner.is_supported_config = staticmethod(answer)


def listen_to_attention(platform: Any) -> None:
    """Wrap the platform's list of attention backends; a choice is made for each layer, none is remembered."""
    from vllm.v1.attention import selector

    selector._cached_get_attn_backend = selector._cached_get_attn_backend.__wrapped__
    ask = platform.get_valid_backends.__func__

    def answer(cls: type, *args: Any, **named: Any) -> Any:
        valid, refused = ask(cls, *args, **named)
        choice = current()
        choice.tried |= {backend.name: "; ".join(reasons) for backend, (_, reasons) in refused.items()}
        choice.tried |= {candidate.backend.name: None for candidate in valid}
        return valid, refused

    platform.get_valid_backends = classmethod(answer)


def listen_to_oracles(oracles: Any) -> None:
    """Note which of the engine's modules chose a layer's experts."""
    for oracle in oracles:
        ask = getattr(oracle, "backend_to_kernel_cls", None)
        if ask is not None:
            oracle.backend_to_kernel_cls = _noting(oracle, ask)


def _noting(oracle: Any, ask: Callable[..., Any]) -> Callable[..., Any]:
    def answer(*args: Any) -> Any:
        current().oracle = oracle
        return ask(*args)

    return answer

"""Values of a model's config.json, which anybody may have written: read with a type and a bound. Pure.

Fields of a config are those of transformers.
"""

from collections.abc import Mapping
from typing import Any, Final

from gb10.errors import UsageError

Config = Mapping[str, Any]
QUANTIZED: Final = "hf_quant_config.json"
"""ModelOpt's file for quantization that config.json lacks."""
LONGEST: Final = 80
"""Characters of a value that an error quotes."""
WIDEST: Final = 64
"""Bits of a number that an error quotes."""


def text_config(config: Config) -> Config:
    """The decoder's fields: those of ``text_config`` over those around it. Raises UsageError."""
    return {**config, **mapping_in(config, "text_config")}


def number_in(config: Config, name: str, largest: int, *, least: int = 1) -> int:
    """A whole number of a config from ``least`` to ``largest``; raises UsageError for anything else."""
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= largest:
        raise other(name, value, f"a whole number up to {largest}")
    return value


def word_in(config: Config, name: str) -> str:
    """A word of a config, empty when it is absent or null. Raises UsageError."""
    value = "" if config.get(name) is None else config[name]
    if not isinstance(value, str):
        raise other(name, value, "text")
    return value


def mapping_in(config: Config, name: str) -> Config:
    """An object of a config, empty when it is absent or null. Raises UsageError."""
    value = {} if config.get(name) is None else config[name]
    if not isinstance(value, Mapping):
        raise other(name, value, "an object")
    return value


def list_in(config: Config, name: str) -> tuple[Any, ...]:
    """A list of a config, empty when it is absent or null. Raises UsageError."""
    value = config.get(name) or ()
    if not isinstance(value, list | tuple):
        raise other(name, value, "a list")
    return tuple(value)


def other(name: str, value: object, wanted: str) -> UsageError:
    """The error for a wrong field value; a number with thousands of digits cannot be printed, so its type is."""
    kind = type(value).__name__
    found = ascii(value)[:LONGEST] if isinstance(value, str | float | bool | None) else kind
    if isinstance(value, int) and abs(value) < 1 << WIDEST:
        found = str(value)
    return UsageError(f"the config's {name} is {found}, not {wanted}", hint="give the config.json of a decoder")

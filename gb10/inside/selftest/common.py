"""What the programs share: results as lines of JSON, and libraries that only the place has."""

import importlib
import json
from typing import Any


def say(kind: str, **values: object) -> None:
    """Print a result."""
    print(json.dumps({"kind": kind, **values}), flush=True)


def library(name: str) -> Any:  # noqa: ANN401 - it has no types here
    """A package of the image. Raises ModuleNotFoundError."""
    return importlib.import_module(name)


def checked(answer: Any) -> Any:  # noqa: ANN401 - of the CUDA bindings
    """The value of a call of cuda-bindings. Raises RuntimeError with the driver's own word for an error."""
    error, *values = answer
    if int(error) != 0:
        raise RuntimeError(str(getattr(error, "name", error)))
    return values[0] if len(values) == 1 else tuple(values)


def first_device(driver: Any) -> Any:  # noqa: ANN401
    """The first GPU, with its context current."""
    checked(driver.cuInit(0))
    device = checked(driver.cuDeviceGet(0))
    checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
    return device

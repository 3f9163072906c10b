"""The keys that model recipes may have, and how close an unknown one is to them. Pure."""

from typing import Final

SHARED: Final = (
    "name",
    "recipe_version",
    "description",
    "model",
    "container",
    "command",
    "defaults",
    "env",
    "mods",
    "build_args",
    "pull_image",
    "cluster_only",
    "solo_only",
)
"""Keys of version 1, which version 2 has, too."""
SPARKRUN: Final = (
    "sparkrun_version",
    "min_sparkrun_version",
    "model_revision",
    "runtime",
    "runtime_version",
    "runtime_config",
    "mode",
    "min_nodes",
    "max_nodes",
    "metadata",
    "benchmark",
    "pre_exec",
    "post_exec",
    "post_commands",
    "stop_after_post",
    "builder",
    "builder_config",
    "executor",
    "executor_config",
    "distribution_config",
    "cluster_config",
    "maintainer",
    "volumes",
)
OF_SPARKRUN: Final = (
    "runtime",
    "runtime_config",
    "builder",
    "executor",
    "executor_config",
    "min_nodes",
    "max_nodes",
    "metadata",
)
"""Keys that only sparkrun acts on; none of eugr's own recipes has one."""
OURS: Final = "gb10"
"""The section that makes a recipe of version 2 one of gb10's; sparkrun goes past it."""
NOT_SUPPORTED: Final = (
    "include",
    "overrides",
    "containers",
    "layout",
    "readiness",
    "capabilities",
    "unsupported_capabilities",
    "runtime_cache",
    "scheduler",
)
"""Keys of sparkrun 0.3 and newer that no recipe of the community uses; rendering without them would be wrong."""
SPARKRUN_READ: Final = "0.4.2"
"""The release of sparkrun whose reading of recipes is followed."""
EXECUTOR: Final = (
    "auto_remove",
    "restart_policy",
    "privileged",
    "gpus",
    "gpu_access_mode",
    "ipc",
    "shm_size",
    "network",
    "user",
    "security_opt",
    "cap_add",
    "ulimit",
    "devices",
    "volumes",
    "memory_limit",
    "labels",
    "entrypoint",
)
KNOWN: Final = frozenset((*SHARED, *SPARKRUN, *NOT_SUPPORTED, OURS))
NEAR: Final = 2
"""Edits (a character inserted, removed or replaced) up to which an unknown key is a misspelt one."""
LONGEST: Final = 64
"""Characters of a key that is compared."""


def closest(key: str, known: frozenset[str] | tuple[str, ...]) -> str | None:
    """The known key that an unknown one was meant to be; None when all are further than NEAR edits."""
    if len(key) > LONGEST:
        return None
    near = [name for name in sorted(known) if abs(len(name) - len(key)) <= NEAR and edits(key, name) <= NEAR]
    return min(near, key=lambda name: edits(key, name), default=None)


def edits(one: str, other: str) -> int:
    """Levenshtein's distance of two texts."""
    row = list(range(len(other) + 1))
    for index, char in enumerate(one, start=1):
        above, row = row, [index]
        for column, letter in enumerate(other, start=1):
            row.append(min(above[column] + 1, row[-1] + 1, above[column - 1] + (char != letter)))
    return row[-1]

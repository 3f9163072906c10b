"""The lock: every byte that goes in. ``lock_recipe`` asks the network, everything else only reads the file."""

from gb10.lock.file import check_lock, load_lock, load_recipe, lock_path, write_lock
from gb10.lock.relock import lock_recipe, resolve_lock

__all__ = ["check_lock", "load_lock", "load_recipe", "lock_path", "lock_recipe", "resolve_lock", "write_lock"]

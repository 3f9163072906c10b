"""The package index as the user's own pip settings name it: where a locked file lies, and fetching it by content."""

from gb10.index.client import Index, locate
from gb10.index.page import Link
from gb10.index.pool import fetch_all
from gb10.index.settings import IndexSettings, read_settings

__all__ = ["Index", "IndexSettings", "Link", "fetch_all", "locate", "read_settings"]

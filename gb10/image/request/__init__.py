"""From command-line options to a plan: releases, checkouts, kernel sets, mods, patches."""

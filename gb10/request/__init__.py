"""What a command line asks for becomes a plan: releases, checkouts, kernel sets, mods, patches."""

#!/bin/sh
# What probe.sh and look.sh share: they print a line for each fact, KEY<TAB>FIELD<TAB>FIELD…; "-" is a field that
# cannot be read. gb10/serving/cluster/probing.py sends it before them. GB10_PROBE_ROOT stands before each path that they read,
# for tests.
set -u
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin:/usr/bin:/bin"
root=${GB10_PROBE_ROOT-}

say() { # KEY FIELD…
  printf '%s' "$1"
  shift
  printf '\t%s' "$@"
  printf '\n'
}

get() { # the first line of a file into $line
  line=
  if [ -r "$1" ]; then read -r line <"$1"; fi 2>/dev/null
  line=${line:--}
}

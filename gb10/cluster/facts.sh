#!/bin/sh
# What the scripts share that read a machine: a line a fact, KEY<TAB>FIELD<TAB>FIELD…; "-" is a field that cannot be
# read. gb10/cluster/probing.py sends it before probe.sh and look.sh. GB10_PROBE_ROOT stands before /sys, /proc, /dev
# and /etc, for tests.
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

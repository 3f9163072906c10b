#!/bin/bash
# The first process of a container that serves a model. It needs bash and setsid, and starts no other program.
#   launch.sh LEAST_KIB COMMAND
# If there is a file "hold", it waits for the file "go", because mods come first. Each file of /gb10/secrets becomes a
# variable of the server, since docker inspect shows a container's environment to all. An empty one is left out.
# It runs the command in a session of its own, and hands SIGTERM on.
# It reads how much memory is left, of the node and of this container's limit: every second, and ten times a second
# when less than eight times LEAST_KIB is left, because weights load at gigabytes a second. Below LEAST_KIB it ends the
# server, below half of that at once: a node whose shared memory is full hangs, and only the power button helps.
# Exit code: the server's; 99 when the guard ended it.
set -u
least=$1 command=$2 guarded=
here=${0%/*}
pause=0.1
exec 3<> <(:) # a pipe in which nothing comes: a read of it waits without a process

left() { # KiB that are left, the smaller of two; page cache counts as free
  left=
  while read -r name kib _; do
    case $name in MemAvailable:) left=$kib && break ;; esac
  done </proc/meminfo
  if [ -r /sys/fs/cgroup/memory.max ]; then
    limited /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current /sys/fs/cgroup/memory.stat inactive_file
  elif [ -r /sys/fs/cgroup/memory/memory.limit_in_bytes ]; then
    limited /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/memory.usage_in_bytes \
      /sys/fs/cgroup/memory/memory.stat total_inactive_file
  fi
}

limited() { # files of the limit, the use and the statistics; the name of the page cache in these
  read -r most <"$1"
  read -r used <"$2"
  case $most in max | ????????????????*) return ;; esac # 10^15 bytes or more: no limit
  inside=$(((most - used) / 1024))
  if ((inside < 8 * least)); then # only now: the kernel adds the statistics up when they are read
    while read -r name bytes; do
      case $name in "$4") inside=$(((most - used + bytes) / 1024)) && break ;; esac
    done <"$3"
  fi
  if [ -z "$left" ] || ((inside < left)); then left=$inside; fi
}

guard() { # end the server when memory runs out
  if [ -z "$left" ]; then return; fi
  if ((left < 8 * least)); then pause=0.1; else pause=1; fi
  if ((left < least)) && [ -z "$guarded" ]; then
    echo "gb10: $((left / 1024)) MiB of memory are left, less than $((least / 1024)): the server is ended" >&4
    guarded=$SECONDS
    end TERM
  fi
  if [ -n "$guarded" ] && { ((left < least / 2)) || ((SECONDS - guarded >= 3)); }; then end KILL; fi
}

end() { # a signal to the server and all that it started, if any is left; before its session exists, to it alone
  kill -s "$1" -- "-$server" 2>/dev/null || kill -s "$1" "$server" 2>/dev/null
}

trap 'exit 143' TERM INT
while [ -e "$here/hold" ] && [ ! -e "$here/go" ]; do
  read -rt 0.2 <&3
done
for secret in "${here%/*}"/secrets/*; do
  value=
  if [ -r "$secret" ]; then read -r value <"$secret"; fi
  if [ -n "$value" ]; then export "${secret##*/}=$value"; fi
done
server='' ended=''
trap 'ended=yes; if [ -n "$server" ]; then end TERM; fi' TERM INT
setsid bash -c "$command" 3>&- & # no job leads a group here, so setsid does not fork, and $! leads its own
server=$!
if [ -n "$ended" ]; then end TERM; fi # the signal came before the server had a number
exec 4>&2 2>/dev/null                 # bash would print how the server ended, and run does that better

while kill -s 0 "$server"; do
  read -rt "$pause" <&3
  left
  guard
done
wait "$server"
code=$?
end KILL
if [ -n "$guarded" ]; then exit 99; fi
exit "$code"

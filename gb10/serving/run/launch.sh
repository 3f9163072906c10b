#!/bin/bash
# The first process of a container that serves a model. It needs bash and setsid, and starts no other program.
#   launch.sh LEAST_KIB COMMAND        bash runs it
#   launch.sh LEAST_KIB -- WORD...     no shell reads these words
# If there is a file "hold", it waits for the file "go", because mods come first. Each file of /gb10/secrets becomes a
# variable of the server, since docker inspect shows a container's environment to all. An empty one is left out.
# It runs the command in a session of its own, and hands SIGTERM on.
# It reads how much memory is left, of the node and of this container's limit: every second, and ten times a second
# when memory becomes short, because weights load at gigabytes a second. A node whose shared memory is full hangs, and
# only the power button helps. So it ends the server by one of three rules:
#   slope  what is left would reach half of LEAST_KIB before the guard can act once more
#   low    less than LEAST_KIB is left and it falls: to half of that within 30 seconds
#   floor  less than half of LEAST_KIB is left
# Less than LEAST_KIB that stays is no reason. What other programs take ends the server by the last rule alone.
# Exit code: the server's; 99 when the guard ended it.
set -u
least=$1 guarded=
shift
if [ "$1" = -- ]; then shift; else set -- bash -c "$1"; fi
here=${0%/*}
pause=0.1 kept=-100 soon=0 stays='' shown='' looks=() seconds=()
exec 3<> <(:) # a pipe in which nothing comes: a read of it waits without a process

look() { # KiB: left, the smaller of two, where page cache counts as free; and who has the rest of the node
  local name kib up total=0 anonymous=0 shared=0
  read -r up _ </proc/uptime
  now=$((10#${up/./})) # hundredths of a second, by a clock that nobody sets
  left='' free=0 cache=0 own='' limited=''
  while read -r name kib _; do
    case $name in
      MemTotal:) total=$kib ;;
      MemFree:) free=$kib ;;
      MemAvailable:) left=$kib ;;
      Buffers: | Cached:) cache=$((cache + kib)) ;;
      AnonPages:) anonymous=$kib ;;
      Shmem:) shared=$kib ;;
      SReclaimable:) cache=$((cache + kib - shared)) && break ;;
    esac
  done </proc/meminfo
  if [ -r /sys/fs/cgroup/memory.current ]; then
    contained /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current /sys/fs/cgroup/memory.stat ''
  elif [ -r /sys/fs/cgroup/memory/memory.usage_in_bytes ]; then
    contained /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/memory.usage_in_bytes \
      /sys/fs/cgroup/memory/memory.stat total_
  fi
  others=$((anonymous + shared - ${own:-0}))
  rest=$((total - free - cache - anonymous - shared)) # CUDA's memory is in no other figure
}

contained() { # files of the limit, the use and the statistics of this container; how names begin in these
  local name bytes most=max used file=0 found=0
  if [ -r "$1" ]; then read -r most <"$1"; fi # a container's root has none
  read -r used <"$2" || return
  while ((found < 2)) && read -r name bytes; do
    case $name in "$4inactive_file" | "$4active_file") file=$((file + bytes)) found=$((found + 1)) ;; esac
  done <"$3"
  own=$(((used - file) / 1024))
  case $most in max | ????????????????*) return ;; esac # 10^15 bytes or more: no limit
  most=$((most / 1024 - own))
  if [ -z "$left" ] || ((most < left)); then left=$most limited=yes; fi
}

keep() { # the figures of 30 seconds: one look of each, and all of the last second
  local figures="$now $left $free $cache ${own:--} $others $rest"
  looks+=("$figures")
  if ((${#looks[@]} > 12)); then looks=("${looks[@]:1}"); fi
  if ((now - kept < 95)); then return; fi
  kept=$now seconds+=("$figures")
  if ((${#seconds[@]} > 31)); then seconds=("${seconds[@]:1}"); fi
}

fall() { # since the oldest of these looks within SPAN: KiB that went, KiB a second, KiB that other programs took
  local -a past
  local count=$# figures
  gone=0 speed=0 theirs=0
  for figures in "$@"; do
    read -ra past <<<"$figures"
    if ((now - past[0] <= span || count == 2)); then break; fi
    count=$((count - 1))
  done
  if ((now == past[0])); then return; fi
  gone=$((past[1] - left))
  speed=$((gone * 100 / (now - past[0])))
  if [ -z "$limited" ] && [ -n "$own" ]; then theirs=$((others - past[5])); fi
}

guard() { # end the server when memory runs out
  local last=$((least / 2)) gone speed theirs span=105
  if [ -z "$left" ]; then return; fi
  keep
  fall "${looks[@]}"
  pause=1
  if ((left < 8 * least || left - 2 * speed < 8 * least)); then pause=0.1; fi
  if [ -n "$guarded" ]; then
    if ((left < last || SECONDS - guarded >= 3)); then end KILL; fi
  elif ((left < last)); then
    ended_by KILL "rule floor: less than $((last / 1024)) MiB"
  elif ((left < 4 * least && speed > 0 && theirs * 2 < gone && (left - last) * 100 / speed < 50)); then
    soon=$((soon + 1)) # once may be a buffer that is whole now
    if ((soon > 1)); then
      ended_by KILL "rule slope: $((speed / 1024)) MiB go in a second, and the guard needs half of one"
    fi
  else
    soon=0
    if ((left < least)); then
      low
    elif ((left > least + least / 8)); then
      stays=
    fi
  fi
}

low() { # little is left: does it fall?
  local span=1050 why='it does not fall'
  fall "${seconds[@]}" "$now"
  if ((speed > 0 && theirs * 2 < gone && (left - last) / speed < 30)); then
    ended_by TERM "rule low: less than $((least / 1024)) MiB, and $((speed / 1024)) MiB go in a second"
  elif [ -z "$stays" ]; then
    if ((speed > 0 && theirs * 2 >= gone)); then why='other programs took it'; fi
    echo "gb10: $((left / 1024)) MiB of memory are left, less than $((least / 1024)), and $why: the server stays" >&4
    stays=yes
  fi
}

ended_by() { # a signal, and the rule; what is printed comes after the signal
  local figures of=node
  local -a past first
  end "$1"
  guarded=$SECONDS
  if [ -n "$limited" ]; then of="container's limit"; fi
  echo "gb10: $((left / 1024)) MiB of memory are left of the $of: the memory guard ends the server ($2)" >&4
  echo 'gb10: seconds, and MiB: left, free, page cache, this container, other programs, GPU and kernel' >&4
  read -ra first <<<"${seconds[0]}"
  for figures in "${seconds[@]}" "${looks[@]}"; do
    read -ra past <<<"$figures"
    if ((past[0] > ${shown:--1})); then row "${past[@]}"; fi
  done
  printf 'gb10: in %d s: left %+d, page cache %+d, this container %+d, other programs %+d, GPU and kernel %+d MiB\n' \
    $(((now - first[0]) / 100)) $(((left - first[1]) / 1024)) $(((cache - first[3]) / 1024)) \
    $(((${own:-0} - ${first[4]/-/0}) / 1024)) $(((others - first[5]) / 1024)) $(((rest - first[6]) / 1024)) >&4
}

row() { # the figures of a look
  local own=$5 ago=$((now - $1))
  shown=$1
  if [ "$own" != - ]; then own=$((own / 1024)); fi
  printf 'gb10: %3d.%02d %7d %7d %7d %7s %7d %7d\n' $((ago / 100)) $((ago % 100)) $(($2 / 1024)) $(($3 / 1024)) \
    $(($4 / 1024)) "$own" $(($6 / 1024)) $(($7 / 1024)) >&4
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
case ${PYTORCH_ALLOC_CONF-} in # PyTorch reads the older name first, which an image may set: it gets the cap, too
  *per_process_memory_fraction:*)
    case ${PYTORCH_CUDA_ALLOC_CONF-per_process_memory_fraction:} in
      *per_process_memory_fraction:*) ;;
      *)
        cap=${PYTORCH_ALLOC_CONF##*per_process_memory_fraction:}
        PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:+$PYTORCH_CUDA_ALLOC_CONF,}per_process_memory_fraction:${cap%%,*}
        ;;
    esac
    ;;
esac
PATH=$PATH:/app # llama.cpp's own images have llama-server there, and no link to it
server='' ended=''
trap 'ended=yes; if [ -n "$server" ]; then end TERM; fi' TERM INT
setsid "$@" 3>&- & # no job leads a group here, so setsid does not fork, and $! leads its own
server=$!
if [ -n "$ended" ]; then end TERM; fi # the signal came before the server had a number
exec 4>&2 2>/dev/null                 # bash would print how the server ended, and run does that better

while kill -s 0 "$server"; do
  read -rt "$pause" <&3
  look
  guard
done
wait "$server"
code=$?
end KILL
if [ -n "$guarded" ]; then exit 99; fi
exit "$code"

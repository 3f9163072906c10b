#!/bin/sh
# odd: rank 0 of 1, on me@one
# Made by gb10: what `run` starts there. `status`, `logs` and `stop` know the container.
# The token of a gated model: HF_TOKEN_FILE=$HOME/.cache/huggingface/token sh gb10-odd-0.sh
set -eu
launch=$(cat <<'GB10'
set -u
least=$1 command=$2 guarded=
here=${0%/*}

left() { # KiB that are left, the smaller of two; page cache counts as free
  left=
  while read -r name kib _; do
    case $name in MemAvailable:) left=$kib ;; esac
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
  while read -r name bytes; do
    case $name in "$4") used=$((used - bytes)) ;; esac
  done <"$3"
  inside=$(((most - used) / 1024))
  if [ -z "$left" ] || [ "$inside" -lt "$left" ]; then left=$inside; fi
}

end() { # a signal to the server and all that it started, if there is any left
  if kill -s 0 -- "-$server" 2>/dev/null; then kill -s "$1" -- "-$server"; fi
}

trap 'exit 143' TERM INT
while [ -e "$here/hold" ] && [ ! -e "$here/go" ]; do
  sleep 1 &
  wait $!
done
for secret in "${here%/*}"/secrets/*; do
  value=
  if [ -r "$secret" ]; then read -r value <"$secret"; fi
  if [ -n "$value" ]; then export "${secret##*/}=$value"; fi
done
setsid bash -c "$command" & # no job leads a group here, so setsid does not fork, and $! leads its own
server=$!
trap 'end TERM' TERM INT

while kill -s 0 "$server" 2>/dev/null; do
  sleep 1 &
  wait $!
  left
  if [ -n "$left" ] && [ "$left" -lt "$least" ]; then
    echo "gb10: $((left / 1024)) MiB of memory are left, less than $((least / 1024)): the server is ended" >&2
    guarded=yes
    end TERM
    sleep 3
    end KILL
  fi
done
wait "$server"
code=$?
end KILL
if [ -n "$guarded" ]; then exit 99; fi
exit "$code"
GB10
)
exec docker run --detach \
  --name gb10-odd-0 \
  --pull missing \
  --gpus all \
  --ipc host \
  --network host \
  --memory 1073741824 \
  --memory-swap 1073741824 \
  --oom-score-adj 500 \
  --restart unless-stopped \
  --volume gb10-cache:/var/cache/gb10 \
  --env HF_HOME=/var/cache/gb10/huggingface \
  --env 'ODD=it'"'"'s "$HOME" $$ $(id) ${X} %h 100% `true` \n {{ x }} # é;' \
  --env 'LINES=a
  b 
' \
  --label io.github.gb10.service=odd \
  --label io.github.gb10.service.rank=0 \
  --label 'io.github.gb10.service.hosts=["me@one"]' \
  --label io.github.gb10.service.model=org/model \
  --label io.github.gb10.service.runtime=vllm-distributed \
  --label io.github.gb10.service.endpoint=http://one:9000 \
  --label io.github.gb10.service.digest=c85aabec682e0cdfa7193290ebd58e5021cc778023f468108a46b106d36db0d0 \
  --label io.github.gb10.service.memory=1073741824 \
  --entrypoint /bin/sh \
  --volume "${HF_TOKEN_FILE:-/dev/null}:/gb10/secrets/HF_TOKEN:ro" \
  registry.example/gb10/vllm:1 -c "$launch" /gb10/run/launch.sh 2097152 'vllm serve org/model --port 9000 \
  -tp 1 --text '"'"'it'"'"'"'"'"'"'"'"'s "$HOME" $$ $(id) ${X} %h 100% `true` \n { x } # é;'"'"' --served-model-name org/model'

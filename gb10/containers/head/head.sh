# Runs on the head: a registry that answers on 127.0.0.1 alone, and for each node a tunnel by which the node reaches it
# there, and we the node's Docker. All ends with stdin, or with the word "done" there. After that word only the image that
# was pushed last stays in STORAGE: the next pull sends and compresses only what is new.
#
# usage: PROGRAM STORAGE WORK [PORT NAME SOCKET]...
# STORAGE may be empty: the user's cache. An empty SOCKET is of a node with K3s: we reach no Docker there, and the line
# "k3s NUMBER PLATFORM SOURCE NAME" on stdin lets its containerd pull SOURCE and call it NAME.
# prints: "registry PORT", then "node NUMBER PORT" or "lost NUMBER why" for each node; or "error why". After "done" it
#         prints "collected", or "error why". For a node with K3s it is "node NUMBER PORT MACHINE", the machine as uname
#         names it; then also "took NUMBER", or "left NUMBER why".
set -eu
umask 077
program=$1 storage=${2:-${XDG_CACHE_HOME:-$HOME/.cache}/gb10/registry} work=$3
shift 3
children=

fail() {
  echo "error $*"
  exit 1
}

# alive PID: one that ended and was not waited for still has its number
alive() {
  state=$(cut -d ' ' -f 3 "/proc/$1/stat" 2>/dev/null) && [ "$state" != Z ]
}

end() {
  trap '' HUP INT PIPE TERM
  set +u
  kill $children $! 2>/dev/null || true # a signal may come before the last one is in the list
  for pid in $children $!; do # a shell that has not yet become its program loses the signal
    tries=0
    while alive "$pid" && [ "$tries" -lt 200 ] && kill "$pid" 2>/dev/null; do
      sleep 0.05
      tries=$((tries + 1))
    done
    alive "$pid" && kill -KILL "$pid" 2>/dev/null || true
  done
  wait
  rm -rf "$work"
}

for tool in flock ssh sed; do
  command -v "$tool" >/dev/null || fail "there is no $tool"
done
mkdir -p "$storage"
exec 8>"$storage/lock"
flock -n 8 || fail "another pull goes through this head: wait for its end"
trap end EXIT
trap 'exit 1' HUP INT PIPE TERM # PIPE: who reads us is gone
mkdir "$work"
rm -rf "$storage"/docker/registry/v2/repositories/*/_uploads

REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=$storage
export REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY
cat >"$work/config.yml" <<END
version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {}, maintenance: {uploadpurging: {enabled: false}}}
http: {addr: "127.0.0.1:0", secret: $(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
END
: >"$work/registry.log" # it is read before the registry's process may have opened it
"$program" serve "$work/config.yml" >>"$work/registry.log" 2>&1 8>&- &
registry=$!
children=$registry
port=
while [ -z "$port" ]; do
  alive "$registry" || fail "$(tail -n 3 "$work/registry.log" | tr '\n' ' ')"
  sleep 0.05
  port=$(sed -n 's/.*listening on 127\.0\.0\.1:\([0-9][0-9]*\).*/\1/p' "$work/registry.log")
done
echo "registry $port"

# on_node NUMBER COMMAND: by ssh, on a node with K3s
on_node() {
  node=$(cat "$work/$1.k3s")
  ssh -T $options ${node%% *} "${node#* }" "$2" </dev/null
}

# watch NUMBER PID
watch() {
  while alive "$2"; do
    allocated=$(sed -n 's/^Allocated port \([0-9][0-9]*\) for remote forward.*/\1/p' "$work/$1.log")
    if [ -n "$allocated" ] && [ -f "$work/$1.k3s" ]; then
      machine=$(on_node "$1" 'uname -m' 2>>"$work/$1.log" | tail -n 1) && [ -n "$machine" ] || break
      echo "node $1 $allocated $machine"
      return
    fi
    if [ -n "$allocated" ] && [ -S "$work/$1.sock" ]; then
      echo "node $1 $allocated"
      return
    fi
    sleep 0.1
  done
  echo "lost $1 $(tail -n 1 "$work/$1.log" | tr -d '\r')"
}

# take NUMBER PLATFORM SOURCE NAME: containerd pulls what it lacks; each word holds only what an image's name may hold
take() {
  script="k='k3s ctr'; [ \$(id -u) = 0 ] || k='sudo -n k3s ctr'
    \$k images pull --plain-http --platform $2 $3 >/dev/null && \$k images tag --force $3 $4 && \$k images rm $3"
  if on_node "$1" "$script" >"$work/$1.log" 2>&1; then
    echo "took $1"
  else
    echo "left $1 $(tail -n 1 "$work/$1.log" | tr -d '\r')"
  fi
}

options='-o BatchMode=yes -o ExitOnForwardFailure=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 -o LogLevel=INFO'
number=0
while [ $# -gt 0 ]; do
  number=$((number + 1))
  [ -n "$3" ] || echo "${1:+-p$1} $2" >"$work/$number.k3s"
  : >"$work/$number.log" # the watch may read it before ssh's process opens it
  ssh -N -T $options ${1:+-p "$1"} -R "127.0.0.1:0:127.0.0.1:$port" ${3:+-L "$work/$number.sock:$3"} "$2" \
    >"$work/$number.log" 2>&1 </dev/null 8>&- &
  children="$children $!"
  watch "$number" "$!" 8>&- &
  children="$children $!"
  shift 3
done

word=
while [ "$word" != done ] && read -r line; do
  word=${line%% *}
  if [ "$word" = k3s ]; then
    take ${line#* } 8>&- &
    children="$children $!"
  fi
done
[ "$word" = done ] || exit 0
kill $children 2>/dev/null || true
wait
children=
if "$program" garbage-collect --delete-untagged=true "$work/config.yml" >"$work/collect.log" 2>&1 8>&-; then
  echo collected
else
  echo "error old layers stay in $storage: $(tail -n 1 "$work/collect.log")"
fi

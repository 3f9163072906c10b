# Runs a command until it ends, or until nobody holds the other end of stdin; then the folder $1, if any, is removed.
scratch=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- &
child=$!
{ read -r _ <&3; [ -z "$scratch" ] || rm -rf "$scratch"; kill "$child"; } 2>/dev/null &
reader=$!
trap : HUP INT TERM
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
kill "$reader" 2>/dev/null
exit "$code"

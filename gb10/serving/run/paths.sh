# Where each path leads, its links followed; "-" for one that is not there.
for path; do
  real=$(readlink -e -- "$root$path") || real=
  say path "$path" "${real:--}"
done
echo end

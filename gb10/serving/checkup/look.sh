#!/bin/sh
# What a machine shows now, beside what gb10/serving/cluster/probe.sh tells. gb10/serving/cluster/facts.sh has the form of a fact.
#   cat gb10/serving/cluster/facts.sh gb10/serving/checkup/look.sh | sh -s
# It needs no rights, writes nothing, and takes about a second. It runs nvidia-smi, journalctl, getconf, sleep.
# gb10/serving/doctor/host_state.py reads it.

lines() { # KEY FIRST-FIELD: a text on stdin, a fact a line, at most 200
  head -n 200 | cut -c 1-280 | tr '\t' ' ' | while IFS= read -r line; do say "$1" "$2" "$line"; done
}

ask() { # SECONDS PROGRAM ARGUMENTS…: what a program prints, if it is there and answers
  if command -v "$2" >/dev/null 2>&1; then timeout "$@" 2>/dev/null; fi
}

snapshot() { # NUMBER: what CPUs and interfaces have done so far
  get "$root/proc/uptime"
  say at "$1" "${line%% *}"
  while read -r name user nice system idle wait _; do
    case $name in cpu[0-9]*) say cpu "$1" "$name" "$((user + nice + system))" "$((idle + wait))" ;; esac
  done <"$root/proc/stat"
  while read -r name received _ _ _ _ _ _ _ sent _; do
    case $name in *:) say traffic "$1" "${name%:}" "$received" "$sent" ;; esac
  done <"$root/proc/net/dev"
}

say look 1
snapshot 1
say page "$(getconf PAGESIZE 2>/dev/null)"
while read -r name kib _; do
  case $name in Cached: | Buffers:) say cache "${name%:}" "$kib" ;; esac
done <"$root/proc/meminfo"
ask 3 nvidia-smi --query-gpu=pstate,utilization.gpu,clocks.sm,clocks.max.sm,power.draw,temperature.gpu,clocks_event_reasons.active \
  --format=csv,noheader,nounits | lines gpu -
ask 3 nvidia-smi --version | lines smi -
for zone in "$root"/sys/class/thermal/thermal_zone*; do
  [ -e "$zone/temp" ] || continue
  get "$zone/type"
  type=$line
  get "$zone/temp"
  say heat "$type" "$line"
done
for sensor in "$root"/sys/class/hwmon/hwmon*; do
  get "$sensor/name"
  [ "$line" = spbm ] || continue
  get "$sensor/prochot"
  say prochot "$line"
done
for stat in "$root"/proc/[0-9]*/stat; do
  get "${stat%/stat}/comm"
  case $line in VLLM::* | sglang::*) ;; *) continue ;; esac
  name=$line
  get "$stat"
  set -- ${line##*) }
  [ $# -ge 2 ] || continue
  get "$root/proc/$2/comm"
  pid=${stat%/stat}
  say engine "${pid##*/}" "$name" "$2" "$line"
done
for file in /etc/docker/daemon.json /etc/nvidia-container-runtime/config.toml; do
  if [ -r "$root$file" ]; then
    say file "$file"
    lines text "$file" <"$root$file"
  elif [ -e "$root$file" ]; then
    say unreadable "$file"
  fi
done
for file in "$root"/etc/cdi/*.yaml "$root"/etc/cdi/*.json "$root"/var/run/cdi/*.yaml "$root"/var/run/cdi/*.json; do
  if [ -e "$file" ]; then say cdi "${file#"$root"}"; fi
done
if command -v docker >/dev/null 2>&1; then say program docker; fi
for device in "$root"/sys/class/infiniband/*/device; do
  [ -e "$device" ] || continue
  get "$device/iommu_group/type"
  name=${device%/device}
  say iommu "${name##*/}" "$line"
done
ask 2 journalctl --no-pager --quiet --output=short --boot=-1 --lines=12 | lines boot -
if [ -n "$(ask 2 journalctl --no-pager --quiet --output=short --boot --dmesg --lines=1)" ]; then say journal kernel; fi
ask 2 journalctl --no-pager --quiet --output=short --boot --dmesg --lines=4000 --grep='NVRM|Xid|mlx5|[Oo]ut of memory|oom-kill' \
  | tail -n 100 | lines kernel -
sleep 0.3
snapshot 2
say end

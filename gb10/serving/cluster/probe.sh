#!/bin/sh
# What a machine says of itself. facts.sh has the form of a fact.
#   cat gb10/serving/cluster/facts.sh gb10/serving/cluster/probe.sh | sh -s -- [FOLDER…]
# FOLDER: the free space of its file system is told. It needs no rights, writes nothing, and runs ip, df, date, uname.
# gb10/serving/cluster/fact_reading.py reads it.
sys=$root/sys/class

last() { # the last part of where a link leads into $line; cd is a builtin, readlink is not everywhere
  line=$(cd -P "$1" 2>/dev/null && pwd)
  line=${line##*/}
  line=${line:--}
}

say probe 1
get "$root/proc/sys/kernel/osrelease"
say kernel "$line"
say machine "$(uname -m)"
say clock "$(date +%s.%N)"
say memlock "$(ulimit -l 2>/dev/null)"
get "$root/proc/driver/nvidia/version"
say driver "$line"
for file in "$root"/proc/driver/nvidia/gpus/*/information; do
  [ -r "$file" ] || continue
  while read -r name value; do
    case $name in Model:) say gpu "$value" ;; esac
  done <"$file"
done
while read -r name kib _; do
  case $name in
    MemTotal: | MemAvailable: | SwapTotal: | CmaTotal: | CmaFree:) say memory "${name%:}" "$kib" ;;
  esac
done <"$root/proc/meminfo"
get "$root/proc/cmdline"
for word in $line; do
  case $word in iommu.* | kho=* | hugepages=*) say option "$word" ;; esac
done
for folder; do
  df -Pk "$folder" 2>/dev/null | while read -r _ total _ free _; do
    case $total in *[!0-9]* | '') ;; *) say disk "$folder" "$total" "$free" ;; esac
  done
done
for file in "$root"/proc/[0-9]*/comm; do
  get "$file"
  case $line in earlyoom | systemd-oomd) say service "$line" ;; esac
done
for file in "$root"/dev/infiniband/*; do
  [ -e "$file" ] && say rdma "${file##*/}"
done

for net in "$sys"/net/*; do
  [ -e "$net/mtu" ] || continue
  set -- "${net##*/}"
  for name in mtu carrier speed address phys_port_name; do
    get "$net/$name"
    set -- "$@" "$line"
  done
  last "$net/device"
  pci=$line
  set -- "$@" "$pci"
  last "$net/device/driver"
  set -- "$@" "$line"
  last "$net/master"
  set -- "$@" "$line"
  if [ -e "$net/device/physfn" ]; then set -- "$@" virtual; else set -- "$@" -; fi
  say net "$@"
  [ -e "$net/device/current_link_width" ] || continue
  set -- "$pci"
  for name in current_link_speed current_link_width max_link_speed max_link_width sriov_numvfs; do
    get "$net/device/$name"
    set -- "$@" "$line"
  done
  say pcie "$@"
done
ip -o addr show 2>/dev/null | while read -r _ name family address _; do
  say address "$name" "$family" "$address"
done
if [ -r "$root/proc/net/arp" ]; then
  while read -r address _ flags mac _ name; do
    case $flags in 0x2 | 0x6) say neighbor "$name" "$address" "$mac" ;; esac
  done <"$root/proc/net/arp"
fi

for hca in "$sys"/infiniband/*; do
  for port in "$hca"/ports/*; do
    [ -r "$port/state" ] || continue
    set -- "${hca##*/}" "${port##*/}"
    for name in state rate link_layer; do
      get "$port/$name"
      set -- "$@" "$line"
    done
    last "$hca/device"
    set -- "$@" "$line"
    names=
    for net in "$hca"/device/net/*; do
      [ -e "$net" ] && names=$names${names:+,}${net##*/}
    done
    say hca "$@" "${names:--}"
    for file in "$port"/gids/*; do
      get "$file"
      case $line in - | 0000:0000:0000:0000:0000:0000:0000:0000) continue ;; esac
      set -- "${hca##*/}" "${port##*/}" "${file##*/}" "$line"
      get "$port/gid_attrs/types/${file##*/}"
      set -- "$@" "$line"
      get "$port/gid_attrs/ndevs/${file##*/}"
      say gid "$@" "$line"
    done
  done
done
say end

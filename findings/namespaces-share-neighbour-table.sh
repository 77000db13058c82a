#!/bin/sh
# Linux 6.18, iproute2 6.1.0 (Debian 12): all network namespaces of a machine share one limit of neighbours, which only the first namespace
# shows and sets (net.ipv4.neigh.default.gc_thresh3, 1024). Hosts in namespaces on one switch that all speak with each other reach it when
# there are 33 of them, though each has 32 neighbours: resolution then fails for some, which looks like loss. A mesh of 100 monitors in
# namespaces on one bridge had probes for 104 of 4950 pairs. With a router between, so that each host has one neighbour, nothing is lost.
#
# Needs unprivileged user namespaces, apt-get and dpkg-deb (Debian, Ubuntu). The packages are unpacked in a temporary folder; nothing is
# installed, and nothing of the machine is touched.
# Seen on 2026-11-28 with Linux 6.18.44: 24 hosts 0 of 552 pairs without an answer, 60 hosts 915 of 3540.
set -eu
version=6.1.0-3
ping_version=3:20221126-1+deb12u1
if [ -z "${INSIDE:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -r "$folder"' EXIT
  cp "$0" "$folder/script"
  cd "$folder"
  chmod 755 .
  apt-get download "iproute2=$version" "iputils-ping=$ping_version" > log 2>&1 || { cat log; exit 1; }
  for package in *.deb; do dpkg-deb --extract "$package" package; done
  INSIDE=yes PATH="$folder/package/bin:$folder/package/sbin:$PATH" \
    unshare --user --map-root-user --net --mount --pid --fork --kill-child sh "$folder/script"
  exit
fi
mount -t tmpfs tmpfs /run

# How many of so many hosts' pairs have no answer to three echo requests.
unanswered() {
  hosts=$1
  ip link add name switch type bridge
  ip link set dev switch up
  for host in $(seq "$hosts"); do
    ip netns add "host$host"
    ip link add name "port$host" type veth peer name eth0 netns "host$host"
    ip link set dev "port$host" master switch up
    ip -n "host$host" address add "10.0.0.$host/24" dev eth0
    ip -n "host$host" link set dev eth0 up
  done
  sleep 2
  for host in $(seq "$hosts"); do
    ip netns exec "host$host" sh -c "
      for other in \$(seq $hosts); do
        [ \$other = $host ] || ping -c 3 -i 0.2 -W 1 -q 10.0.0.\$other > /dev/null 2>&1 || echo \$other
      done" >> "/run/$hosts" &
  done
  wait
  for host in $(seq "$hosts"); do ip netns delete "host$host"; done
  ip link delete switch
  wc -l < "/run/$hosts"
}

uname -r; ip -V; ping -V
few=$(unanswered 24)
many=$(unanswered 60)
echo "pairs without an answer: $few of 552 with 24 hosts, $many of 3540 with 60 hosts"
if [ "$few" = 0 ] && [ "$many" -gt 0 ]; then echo "as described"; else echo "no longer as described"; exit 1; fi

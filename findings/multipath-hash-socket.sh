#!/bin/sh
# Linux 6.18, iproute2 6.1.0 (Debian 12): a router in a network namespace that spreads TCP by addresses and ports
# (net.ipv4.fib_multipath_hash_policy 1) sends connections with the same addresses and ports over different paths, if their sender
# is a socket of the same machine behind virtual Ethernet. Packets keep the hash of the socket that sent them, which is drawn at random
# for each (and once more at each retransmission timeout), and policy 1 takes a hash that a packet has already. So ECMP laid out of
# namespaces does to a flow what no router does. Policy 3 with the same five fields (fib_multipath_hash_fields 55) reads the headers.
#
# Needs unprivileged user namespaces, apt-get, dpkg-deb and perl-base (Debian, Ubuntu). The package is unpacked in a temporary folder; nothing is
# installed, and nothing of the machine is touched.
# Seen on 2026-11-30 with Linux 6.18.44: of 40 SYNs with the same addresses and ports, 27 took the second link, with policy 3 none or all.
set -eu
version=6.1.0-3
if [ -z "${INSIDE:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -r "$folder"' EXIT
  cp "$0" "$folder/script"
  cd "$folder"
  chmod 755 .
  apt-get download "iproute2=$version" > log 2>&1 || { cat log; exit 1; }
  dpkg-deb --extract ./*.deb package
  INSIDE=yes PATH="$folder/package/bin:$folder/package/sbin:$PATH" \
    unshare --user --map-root-user --net --mount --pid --fork --kill-child sh "$folder/script"
  exit
fi
mount -t tmpfs tmpfs /run

# A client, a router, a server; two links between the latter.
for host in client router server; do
  ip netns add $host
  ip -n $host link set dev lo up
done
ip -n client link add name eth0 type veth peer name eth0 netns router
ip -n router link add name path1 type veth peer name path1 netns server
ip -n router link add name path2 type veth peer name path2 netns server
join() {
  ip -n "$1" address add "$3" dev "$2"
  ip -n "$1" link set dev "$2" up
}
join client eth0 10.0.0.1/24
join router eth0 10.0.0.2/24
join router path1 10.0.1.1/24
join server path1 10.0.1.2/24
join router path2 10.0.2.1/24
join server path2 10.0.2.2/24
ip -n server address add 10.9.0.1/32 dev lo
ip -n client route add default via 10.0.0.2
ip -n server route add default via 10.0.1.1
ip -n router route add 10.9.0.1/32 nexthop via 10.0.1.2 nexthop via 10.0.2.2
ip netns exec router sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
ip netns exec server sh -c 'for filter in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $filter; done'

# TCP's SYNs from one port to one port, nobody listening: how many have come over the second link.
second_link() {
  ip netns exec router sh -c "
    echo 55 > /proc/sys/net/ipv4/fib_multipath_hash_fields
    echo $1 > /proc/sys/net/ipv4/fib_multipath_hash_policy"
  before=$(packets)
  for _ in $(seq 40); do
    ip netns exec client perl -MIO::Socket::INET -e \
      'IO::Socket::INET->new(LocalPort => 5000, PeerAddr => "10.9.0.1", PeerPort => 7000)'
  done
  echo $(($(packets) - before))
}
packets() { ip -n server -s -o link show dev path2 | sed 's/.*RX:[^0-9]*[0-9]* *\([0-9]*\).*/\1/'; }

uname -r; ip -V
by_socket=$(second_link 1)
by_headers=$(second_link 3)
echo "of 40 SYNs with the same addresses and ports, by the second of two links: $by_socket with policy 1, $by_headers with policy 3"
if [ "$by_socket" -ge 5 ] && [ "$by_socket" -le 35 ] && { [ "$by_headers" -le 4 ] || [ "$by_headers" -ge 36 ]; }; then
  echo "as described"
else
  echo "no longer as described"
  exit 1
fi

#!/bin/sh
# Linux 6.18, iperf3 3.12 (Debian 12): a TCP connection that is paced (SO_MAX_PACING_RATE, `iperf3 --fq-rate`) to 500 kbit/s over a round
# trip of less than a millisecond sends several segments at once, most often nine of an initial window of ten, each 0.2 s. Pacing is said to
# be for a millisecond's worth at once, here 62 bytes, so that single segments each 22 ms would be expected: but the kernel adds up to 64 kB
# to each burst, halved for each 512 us of the least round trip (net.ipv4.tcp_tso_rtt_log 9, since Linux 5.18), as far as the window
# goes. With 0 for that, single segments leave.
#
# Needs unprivileged user namespaces, apt-get and dpkg-deb (Debian, Ubuntu). The packages are unpacked in a temporary folder; nothing is
# installed, and nothing of the machine is touched.
# Seen on 2026-11-30 with Linux 6.18.44: 4.7 and 5.1 segments at once in the mean, iperf3's own messages included; 0.9 without the addition.
set -eu
version=3.12-1+deb12u2
iproute2_version=6.1.0-3
sctp_version=1.0.19+dfsg-2
if [ -z "${INSIDE:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -r "$folder"' EXIT
  cp "$0" "$folder/script"
  cd "$folder"
  chmod 755 .
  apt-get download "iperf3=$version" "libiperf0=$version" "iproute2=$iproute2_version" "libsctp1=$sctp_version" > log 2>&1 || { cat log; exit 1; }
  for package in ./*.deb; do dpkg-deb --extract "$package" package; done
  INSIDE=yes PATH="$folder/package/usr/bin:$folder/package/bin:$folder/package/sbin:$PATH" \
    LD_LIBRARY_PATH="$(dirname "$(find "$folder/package" -name 'libiperf.so.0')")" \
    unshare --user --map-root-user --net --mount --pid --fork --kill-child sh "$folder/script"
  exit
fi
mount -t tmpfs tmpfs /run
iperf3 --version | head -1
uname -sr

# Two hosts and a cable.
for host in sender receiver; do
  ip netns add $host
  ip -n $host link set dev lo up
done
ip -n sender link add name eth0 type veth peer name eth0 netns receiver
ip -n sender address add 10.0.0.1/24 dev eth0
ip -n receiver address add 10.0.0.2/24 dev eth0
ip -n sender link set dev eth0 up
ip -n receiver link set dev eth0 up
ip netns exec receiver iperf3 --server --daemon

# Bytes and packets that have left, as the interface got them.
left() {
  ip netns exec sender sh -c 'cat /sys/class/net/eth0/statistics/tx_bytes /sys/class/net/eth0/statistics/tx_packets' | tr '\n' ' '
}
# The mean of what left at once, iperf3's own messages included, in segments of 1388 bytes of payload and 66 of headers.
segments() {
  ip netns exec sender sh -c "echo $1 > /proc/sys/net/ipv4/tcp_tso_rtt_log"
  before=$(left)
  ip netns exec sender iperf3 --client 10.0.0.2 --fq-rate 500K --set-mss 1400 --time 6 > /dev/null
  echo "$before $(left)" | awk '{ print int(($3 - $1) / ($4 - $2) / 1454 * 10) / 10 }'
}
sleep 1
burst=$(segments 9)
single=$(segments 0)
echo "segments at once, mean: $burst; without the addition for short round trips $single"
if echo "$burst $single" | awk '{ exit !($1 > 3 && $2 < 1.5) }'; then
  echo "as described"
else
  echo "no longer as described"
  exit 1
fi

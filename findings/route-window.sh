#!/bin/sh
# Linux 6.18, iproute2 6.1.0 (Debian 12): a connection exceeds the receive window of its route (`ip route … window`: "the maximal window for
# TCP to advertise", ip-route(8)). The route's window decides on the scale of windows in the SYN alone; what is advertised goes up to 65535
# times that scale. So the windows that hold are those of one byte less than a power of two from 64 kB on.
#
# Needs unprivileged user namespaces, python3, apt-get and dpkg-deb (Debian, Ubuntu). The package is unpacked in a temporary folder; nothing
# is installed, and nothing of the machine is touched.
# Seen on 2026-11-29 with Linux 6.18.44: with 40000 up to 65535, with 65536 up to 131070, with 1048576 up to 2097120.
set -eu
version=6.1.0-3
if [ -z "${INSIDE:-}" ]; then
  folder=$(mktemp -d)
  trap 'rm -r "$folder"' EXIT
  cp "$0" "$folder/script"
  cd "$folder"
  chmod 755 .
  apt-get download "iproute2=$version" > log 2>&1 || { cat log; exit 1; }
  dpkg-deb --extract iproute2_*.deb package
  INSIDE=yes PATH="$folder/package/bin:$folder/package/sbin:$PATH" \
    unshare --user --map-root-user --net --mount --pid --fork --kill-child sh "$folder/script"
  exit
fi
mount -t tmpfs tmpfs /run
ip netns add sender
ip netns add receiver
ip link add name near netns sender type veth peer name far netns receiver
ip -n sender address add 10.0.0.1/24 dev near
ip -n receiver address add 10.0.0.2/24 dev far
ip -n sender link set dev near up
ip -n receiver link set dev far up
cat > /run/receive.py <<'PYTHON'
import socket
connection, _ = socket.create_server(("10.0.0.2", 9)).accept()
while connection.recv(1 << 20):
    pass
PYTHON
cat > /run/send.py <<'PYTHON'
import socket, struct, time
TCPI_SND_WND = 228  # its place in struct tcp_info
connection = socket.create_connection(("10.0.0.2", 9))
greatest, end = 0, time.monotonic() + 3
while time.monotonic() < end:
    connection.send(bytes(1 << 16))
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    greatest = max(greatest, struct.unpack_from("I", info, TCPI_SND_WND)[0])
print(greatest)
PYTHON
uname -r
ip -V
result="as described"
for window in 40000 65535 65536 1048575 1048576; do
  ip -n receiver route change 10.0.0.0/24 dev far window "$window"
  ip netns exec receiver python3 /run/receive.py &
  sleep 0.5
  greatest=$(ip netns exec sender python3 /run/send.py)
  wait
  echo "a route's window of $window bytes: $greatest are advertised"
  case $window in
    65535 | 1048575) [ "$greatest" -le "$window" ] || result="no longer as described" ;;
    *) [ "$greatest" -gt "$window" ] || result="no longer as described" ;;
  esac
done
echo "$result"
[ "$result" = "as described" ]

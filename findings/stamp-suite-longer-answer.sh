#!/bin/sh
# stamp-suite 1.0.0 (crates.io): in STAMP's authenticated mode, its reflector answers a test packet with extra padding by a packet that is 20
# octets longer. RFC 8762 (4): "By default, STAMP uses symmetrical packets, i.e., the size of the packet transmitted by the Session-Reflector
# equals the size of the packet received". RFC 8972 (4.8) needs no HMAC TLV where padding alone is there; the reflector adds one. So a path's
# MTU can be found too small by 20 bytes on the way back, and the two directions of a test are not loaded alike. With an HMAC TLV in the
# question, and without padding, sizes are equal.
#
# Needs cargo, a C compiler and python3; `STAMP_SUITE_ROOT=DIRECTORY` saves building the program, which takes some minutes. It listens on
# loopback alone, and is gone at the end.
# Seen on 2026-11-29 with stamp-suite 1.0.0: 112 octets are answered by 112, 124 by 144, 144 by 144.
set -eu
version=1.0.0
folder=$(mktemp -d)
reflector=
trap '[ -z "$reflector" ] || kill "$reflector"; rm -r "$folder"' EXIT
root=${STAMP_SUITE_ROOT:-$folder/root}
[ -x "$root/bin/stamp-suite" ] ||
  CARGO_TARGET_DIR="$folder/target" cargo install --locked --quiet --version "$version" --root "$root" stamp-suite > "$folder/log" 2>&1 ||
  { cat "$folder/log"; exit 1; }
"$root/bin/stamp-suite" --version
[ "$("$root/bin/stamp-suite" --version)" = "stamp-suite $version" ] || exit 1
cat > "$folder/ask.py" <<'PYTHON'
import hashlib, hmac, socket, struct
KEY = bytes([0x5A]) * 32
ADDRESS = ("127.90.7.2", 8620)
def code(octets):
    return hmac.new(KEY, octets, hashlib.sha256).digest()[:16]
def tlv(kind, value):
    return struct.pack(">BBH", 0x80, kind, len(value)) + value
def answer_octets(sequence, extensions):
    packet = struct.pack(">I12xQHH68x", sequence, 0xEE00000000000000, 1, 0)
    question = packet + code(packet) + extensions
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(1)
    for attempt in range(20):
        try:
            asking.sendto(question, ADDRESS)
            return len(question), len(asking.recv(2000))
        except (ConnectionError, TimeoutError):
            pass
    raise SystemExit("no answer")
padding = tlv(1, bytes(8))
signed = padding + tlv(8, code(struct.pack(">I", 2) + padding))
sizes = [answer_octets(0, b""), answer_octets(1, padding), answer_octets(2, signed)]
for question, answer in sizes:
    print(f"{question} octets are answered by {answer}")
print("as described" if sizes == [(112, 112), (124, 144), (144, 144)] else "no longer as described")
PYTHON
"$root/bin/stamp-suite" --is-reflector --local-addr 127.90.7.2 --local-port 8620 --auth-mode A \
  --hmac-key 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a > "$folder/reflector" 2>&1 &
reflector=$!
sleep 1
python3 "$folder/ask.py" | tee "$folder/result"
[ "$(tail -n 1 "$folder/result")" = "as described" ]

#!/bin/sh
# iproute2 6.1.0 (Debian 12): of the delay tables that `tc qdisc add … netem delay MEAN JITTER distribution NAME` loads, only `normal` has
# mean 0 and deviation 1, in units of the jitter. With `pareto`, `paretonormal` and `experimental` the deviation of the delay is 12 to 18 % less
# than the jitter that was asked for, and `pareto` has no long tail: its greatest value is four jitters, as the numbers of a table are
# of 16 bits, 8192 for one jitter.
#
# Needs apt-get and dpkg-deb (Debian, Ubuntu). The package is unpacked in a temporary folder; nothing is installed.
# What was seen on 2026-11-28 stands below, as `expected`.
set -eu
version=6.1.0-3
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
chmod 755 .
apt-get download "iproute2=$version" > log 2>&1 || { cat log; exit 1; }
dpkg-deb --extract iproute2_*.deb package
for table in normal pareto paretonormal experimental; do
  file=$(find package -name "$table.dist")
  grep -v '^#' "$file" | tr -s ' \t' '\n\n' | awk -v table="$table" '
    NF { value = $1 / 8192; count++; sum += value; squares += value * value
         if (value > greatest) greatest = value
         if (value < least) least = value }
    END { mean = sum / count
          printf "%s: %d values, mean %.2f, deviation %.2f, from %.2f to %.2f\n", table, count, mean, sqrt(squares / count - mean * mean), least, greatest }'
done > seen
cat seen
printf '%s\n' \
  'normal: 4096 values, mean -0.00, deviation 1.00, from -4.00 to 3.52' \
  'pareto: 4096 values, mean -0.03, deviation 0.82, from -0.67 to 4.00' \
  'paretonormal: 4096 values, mean -0.03, deviation 0.83, from -1.50 to 3.88' \
  'experimental: 4096 values, mean -0.01, deviation 0.88, from -1.29 to 4.00' > expected
if diff expected seen; then echo "as described"; else echo "no longer as described"; exit 1; fi

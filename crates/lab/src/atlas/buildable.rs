//! Which paths can be built in real time, and why others are left out.

use crate::accuracy::BottleneckKind;
use kumade_link::{Medium, TokenBucket};
#[cfg(target_os = "linux")]
use kumade_netns_testbed::HtbNetwork;
use kumade_sim::PathHop;
use kumade_sim::atlas::DrawnPath;
use kumade_units::{Rate, Span};

/// What programs of one machine send and receive in time, on a link that is emulated and on the kernel's; and what of it may be
/// cross traffic of real packets.
const MAX_LINE_RATE: Rate = Rate::from_mbit(1000);
const MAX_KERNEL_LINE_RATE: Rate = Rate::from_mbit(500);
const MAX_REAL_CROSS_RATE: Rate = Rate::from_mbit(50);
/// Policers with larger bursts are beyond what a measurement tries.
const MAX_POLICED_BURST_BYTES: u64 = 1_000_000;
/// Of the hosts' devices.
const DEVICE_MTU: u32 = 1500;

/// Why the path cannot be built so, if it cannot. In real time, a path is one link or two in series, the second of them with tail drop, or
/// on either side of a proxy, of a constant rate, with cross traffic that does not react, and without errors of its hosts' stamps; of the
/// kernel's parts, one link that it can do.
pub(super) fn unsupported_reason(path: &DrawnPath, bottleneck: BottleneckKind) -> Option<String> {
    let max_line = match bottleneck {
        BottleneckKind::Virtual => return None,
        BottleneckKind::Emulated => MAX_LINE_RATE,
        BottleneckKind::Htb => MAX_KERNEL_LINE_RATE,
    };
    let varies =
        |hop: &PathHop| matches!(hop.link.medium, Some(Medium::Wireless(_) | Medium::Trace(_) | Medium::Schedule(_)));
    let is_too_fast = |hop: &PathHop| hop.link.rate.is_none_or(|rate| rate > max_line);
    let obstacles = [
        (path.has_ecmp_links, "its links are side by side"),
        (path.hops.len() > 2, "it has more than two links"),
        (path.hops.iter().skip(1).any(|hop| hop.queue.is_some()), "its second link has a queue discipline"),
        (
            !path.elastic_flows.is_empty(),
            "what its connections would do without the measurement is known in virtual time only",
        ),
        (path.stamping.batching > Span::ZERO, "its receiver would have to collect packets"),
        (path.hops.iter().any(varies), "what its link carries is known in virtual time only"),
        (path.mtu.is_some_and(|mtu| mtu < DEVICE_MTU), "the hosts' devices have a larger MTU"),
        (path.hops.iter().any(is_too_fast), "its link is faster than programs of one machine"),
    ];
    let obstacle = obstacles.iter().find(|(applies, _)| *applies).map(|(_, reason)| (*reason).to_owned());
    obstacle.or_else(|| (bottleneck == BottleneckKind::Htb).then(|| kernel_unsupported_reason(path)).flatten())
}

#[cfg(not(target_os = "linux"))]
fn kernel_unsupported_reason(_: &DrawnPath) -> Option<String> {
    Some("the kernel's shapers are Linux's".to_owned())
}

#[cfg(target_os = "linux")]
fn kernel_unsupported_reason(path: &DrawnPath) -> Option<String> {
    let [PathHop { link, queue, .. }] = &path.hops[..] else { return Some("the kernel's shapers are one link".into()) };
    if path.cross_rate > MAX_REAL_CROSS_RATE {
        return Some(format!(
            "more than {MAX_REAL_CROSS_RATE} of real packets is too much for programs of one machine"
        ));
    }
    if link.policer.is_some_and(|policer| HtbNetwork::nftables_burst_bytes(policer) > MAX_POLICED_BURST_BYTES) {
        return Some("the kernel's policer adds what passes in a second to its burst, which is too much here".into());
    }
    HtbNetwork::unavailable_reason(link, queue.as_ref())
}

/// The path as it is when it is built so: the kernel's links have no delay, and its policers larger bursts.
#[cfg(not(target_os = "linux"))]
pub(super) fn as_built(path: DrawnPath, _: BottleneckKind) -> DrawnPath {
    path
}

#[cfg(target_os = "linux")]
pub(super) fn as_built(mut path: DrawnPath, bottleneck: BottleneckKind) -> DrawnPath {
    if let (BottleneckKind::Htb, [hop]) = (bottleneck, &mut path.hops[..]) {
        hop.link.delay = Span::ZERO;
        if let Some(policer) = hop.link.policer {
            path.token_bucket = path
                .token_bucket
                .map(|bucket| TokenBucket { burst_bytes: HtbNetwork::nftables_burst_bytes(policer), ..bucket });
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_sim::atlas::{PathKind, Seeds};

    /// The paths among the first hundred of a kind that can be built so.
    fn built_of(kind: PathKind, bottleneck: BottleneckKind) -> Vec<DrawnPath> {
        let paths = (0..100).map(|number| DrawnPath::new(kind, Seeds::Tuning.seed(number)));
        paths
            .filter(|path| unsupported_reason(path, bottleneck).is_none())
            .map(|path| as_built(path, bottleneck))
            .collect()
    }

    #[test]
    fn the_kernel_has_some_of_each_kind_that_it_can_do_and_none_of_the_others() {
        use PathKind::{
            BurstyCross, Fifo, JitteredCross, OnOff, PacketMix, Policer, Red, Shaper, SlowLink, SmallBucket,
        };
        for kind in PathKind::ALL {
            let of_one_link =
                [Fifo, Policer, Shaper, Red, SlowLink, PacketMix, JitteredCross, SmallBucket, BurstyCross, OnOff];
            let can_do = of_one_link.contains(&kind);
            // Short queues, long delays and large MTUs are those of links, without their delays.
            let may_do = can_do || [PathKind::ShortQueue, PathKind::LongDelay, PathKind::Mtu].contains(&kind);
            let found = built_of(kind, BottleneckKind::Htb).len();
            assert!(if can_do { found >= 4 } else { found == 0 || may_do }, "{kind}: {found}");
        }
    }

    #[test]
    fn a_policer_of_the_kernel_is_what_it_makes_of_the_burst() {
        for path in built_of(PathKind::Policer, BottleneckKind::Htb) {
            let (bucket, policer) = (path.token_bucket.unwrap(), path.hops[0].link.policer.unwrap());
            assert_eq!(bucket.burst_bytes, policer.burst_bytes + policer.rate.bytes_in(Span::from_secs(1)));
            assert!(bucket.burst_bytes <= MAX_POLICED_BURST_BYTES && path.hops[0].link.delay == Span::ZERO);
        }
    }
}

//! Constants of paths and trains that have neither a source nor a measurement yet, all in one place: each is to be replaced by one of these.
//!
//! What only steers the numbers' exactness (grids, tails that are cut off) stands beside its use and is held by tests. Criteria of the verdict are
//! decisions, and stand there.

use kumade_units::Span;

/// Packets that arrive together are stamped in any order within this time: about what a driver takes to hand on a batch of 64 packets.
pub(crate) const MAX_BATCH_GAP: Span = Span::from_micros(50);
/// Fewer packets at a constant rate show no growth of the delay.
pub(crate) const MIN_BODY_PACKETS: usize = 6;
/// Fewer packets back to back show no dispersion.
pub(crate) const MIN_HEAD_PACKETS: usize = 3;
/// One part in so many of a body passes while the head leaves all queues but the one that limits the path, …
pub(crate) const SKIPPED_PART_BEHIND_HEAD: usize = 8;
/// … and while the queue finds its length where there is no head.
pub(crate) const SKIPPED_PART_WITHOUT_HEAD: usize = 4;
/// One in so many gaps within a head is shorter than the one that shows the quick rate.
pub(crate) const QUICK_GAPS_PART: usize = 4;
/// A head that takes longer to arrive than to leave by less than this part was not queued: it says how fast the sender is.
pub(crate) const MIN_HEAD_GROWTH: f64 = 0.25;
/// A body that lost more than this part met a queue without room.
pub(crate) const MAX_LOSS_FRACTION: f64 = 0.05;

/// Prior probabilities of the models, for a host of whose path nothing is known. They add up to one.
pub(crate) mod priors {
    pub(crate) const FIFO: f64 = 0.45;
    pub(crate) const IDLE: f64 = 0.1;
    pub(crate) const FLOW_QUEUEING: f64 = 0.15;
    pub(crate) const TIGHT_LINK_ELSEWHERE: f64 = 0.1;
    pub(crate) const VARYING_LINK: f64 = 0.1;
    pub(crate) const OTHER: f64 = 0.1;
}

/// The index of dispersion of cross traffic (variance of what arrives over its mean), in bits, lies somewhere between these: from packets at
/// equal intervals to several bursts of segmentation offload (64 KiB are 5e5 bits) at a time. Poisson packets of 1500 bytes have 12 000.
pub(crate) const DISPERSION_RANGE_BITS: (f64, f64) = (1e2, 3e6);
/// The same where it cannot be told from what a second queue does.
pub(crate) const DISPERSION_RANGE_OF_TWO_LINKS_BITS: (f64, f64) = (3e3, 3e5);
/// A tight link elsewhere is so many times as fast as the narrow link, at least and at most.
pub(crate) const TIGHT_LINK_RATIO_RANGE: (f64, f64) = (1.15, 10.0);
/// How exact the sum of what two queues do is: one may be empty for a part of a segment in which the other isn't.
pub(crate) const TWO_QUEUES_RELATIVE_ERROR: f64 = 0.1;
/// The relative standard deviation of the rate of a link that varies: from what a link layer's retransmissions cost to a link that is off at times.
pub(crate) const RATE_DEVIATION_RANGE: (f64, f64) = (0.02, 0.6);
/// Heads begin at the link's rate: the first packet of a flow that had none queued is served at once (RFC 8290, section 4.2), and so may be those
/// of its first quantum. So heads take less time than the share says, by up to so many packets'.
pub(crate) const MAX_HEAD_START_PACKETS: f64 = 1.5;
/// By which part of a segment's time its growth differs from anything that is expected, where no model holds.
pub(crate) const OTHER_RELATIVE_DEVIATION: f64 = 0.3;

/// The scatter of the logarithm of the quick rate: link layers and sizes make it differ by so much from the capacity, …
pub(crate) const QUICK_RATE_SCATTER: f64 = 0.02;
/// … and so blurred are the ends of a range of it.
pub(crate) const QUICK_RATE_RANGE_SCATTER: f64 = 0.03;
/// The quick rate over the capacity: radio links send what they hold at once, …
pub(crate) const QUICK_RATE_RANGE_OF_RADIO: (f64, f64) = (0.5, 4.0);
/// … and where no model holds, it is anything.
pub(crate) const QUICK_RATE_RANGE_OF_OTHER: (f64, f64) = (0.5, 8.0);
/// The scatter of the logarithm of the mean wait of some thirty idle packets, which consists of rare waits; traffic at even intervals may keep step
/// with them.
pub(crate) const IDLE_WAIT_SCATTER: f64 = 0.6;
/// The ratio of the longest wait of idle packets to the shortest one, where nothing is known of it: from a tenth of a microsecond to a tenth of a second.
pub(crate) const IDLE_WAIT_RANGE_RATIO: f64 = 1e6;

/// Mean parts of packets that are lost: by queues that have room (RFC 2544 counts from 0.1 %; wireless access with retransmissions has 1 %), …
pub(crate) const USUAL_LOSS_FRACTION: f64 = 0.01;
/// … by links whose rate varies, …
pub(crate) const VARYING_LINK_LOSS_FRACTION: f64 = 0.03;
/// … and by anything.
pub(crate) const OTHER_LOSS_FRACTION: f64 = 0.2;

/// By so many times the usual scatter do hosts disturb a segment, with Student's tails.
pub(crate) const DISTURBED_SCALE: f64 = 5.0;

//! What models of one link have in common: cross traffic, and what is known besides trains.

use crate::assumptions::{IDLE_WAIT_RANGE_RATIO, IDLE_WAIT_SCATTER, QUICK_RATE_RANGE_SCATTER, QUICK_RATE_SCATTER};
use crate::hosts;
use crate::observations::Observations;
use crate::student;

/// The usual packet of cross traffic, in bits: full packets of Ethernet's 1500 bytes (RFC 894) carry most bytes.
pub(super) const CROSS_PACKET_BITS: f64 = 12_000.0;

/// The variance in bits² of what cross traffic of this rate sends in so many seconds, whose index of dispersion is so many bits. However even
/// it is, it consists of whole packets. Of a time in which less than one is due, it is that of one packet or none; in a longer time, the
/// number is one more or one less by chance: a sixth of a packet squared is the variance of a difference of two uniform phases. It is less where trains
/// and cross traffic are so even that each train meets the same.
pub(super) fn cross_variance(rate: f64, seconds: f64, dispersion: f64) -> f64 {
    let mean = (rate * seconds).max(0.0);
    let of_phases = CROSS_PACKET_BITS * (CROSS_PACKET_BITS / 6.0).min(dispersion);
    let of_one = mean * (CROSS_PACKET_BITS - mean);
    mean * dispersion + of_phases.min(mean * CROSS_PACKET_BITS).max(of_one)
}

/// The rise of a line of least squares through a random walk has this times the variance of the walk's own rise: the weights of the increments
/// are 6 x (1 − x), of which the mean square is 6/5.
pub(crate) const LINE_VARIANCE_FACTOR: f64 = 1.2;

/// The logarithm of the density of the logarithm of the quick rate, where packets sent back to back leave a link of this rate one behind
/// the other.
pub(super) fn ln_quick_rate(capacity: f64, seen: &Observations) -> f64 {
    let Some(quick) = seen.quick_rate else { return 0.0 };
    let stamps = 2f64.sqrt() * hosts::STAMP_SCATTER_SECONDS * capacity / CROSS_PACKET_BITS;
    let scale = QUICK_RATE_SCATTER.hypot(stamps);
    student::ln_density((quick / capacity).ln() / scale) - scale.ln()
}

/// The same where it lies anywhere between these two rates.
pub(super) fn ln_quick_rate_between(least: f64, most: f64, seen: &Observations) -> f64 {
    let Some(quick) = seen.quick_rate else { return 0.0 };
    let (above, range) = ((quick / least).ln(), (most / least).ln());
    (student::probability_between(-above / QUICK_RATE_RANGE_SCATTER, (range - above) / QUICK_RATE_RANGE_SCATTER)
        .max(1e-12)
        / range)
        .ln()
}

/// The logarithm of the density of the logarithm of the mean wait of idle packets, where they wait for so many seconds on average.
pub(super) fn ln_idle_wait(mean: f64, seen: &Observations) -> f64 {
    let Some(wait) = seen.idle_wait else { return 0.0 };
    let [wait, mean] = [wait, mean].map(|seconds| (seconds + hosts::STAMP_SCATTER_SECONDS / 2.0).ln());
    student::ln_density((wait - mean) / IDLE_WAIT_SCATTER) - IDLE_WAIT_SCATTER.ln()
}

/// How long a packet waits on average behind cross traffic that fills a part `load` of a link of this capacity (Pollaczek and Khinchin). Traffic at even
/// intervals has no queue: only the packet on the link is waited for.
pub(super) fn mean_wait(capacity: f64, load: f64, dispersion: f64) -> f64 {
    let on_link = load * CROSS_PACKET_BITS.max(dispersion) / (2.0 * capacity);
    on_link * (1.0 + (dispersion / CROSS_PACKET_BITS).min(1.0) * load / (1.0 - load).max(0.01))
}

/// The logarithm of the density of the logarithm of the mean wait of idle packets, where others' packets are on the link at times: anything.
pub(super) fn ln_idle_wait_of_traffic(seen: &Observations) -> f64 {
    seen.idle_wait.map_or(0.0, |_| -IDLE_WAIT_RANGE_RATIO.ln().ln())
}

/// The logarithm of the density of a mean loss, where so much is lost on average.
pub(super) fn ln_loss(mean: f64, seen: &Observations) -> f64 {
    -mean.ln() - seen.loss_fraction / mean
}

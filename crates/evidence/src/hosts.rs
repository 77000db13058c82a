//! The errors of hosts: one model for all facts.

/// By how many seconds the stamps of a packet, of both ends together, scatter. Kernel stamps on two ordinary machines: 1 to 5 µs from the
/// driver to the stamp (`kumade lab run rake-accuracy`, delays of the quiet link); user to transmit stamp 2.7 µs, 5 µs a send.
pub(crate) const STAMP_SCATTER_SECONDS: f64 = 3e-6;

/// By how much the rates of two clocks differ while no daemon slews them: crystals of ordinary machines are specified to 100 ppm (NTP's own
/// limit for a clock's frequency error is 500 ppm, RFC 5905, section 7.1).
pub(crate) const MAX_SKEW: f64 = 100e-6;

/// The variance of how much the delay grows from a segment's first packet to its last, in s², if nothing but hosts has a part in it: `packets`
/// is one for each of which the delay went into a line, and two where only the ends count.
pub(crate) fn growth_variance(packets: f64, seconds: f64) -> f64 {
    // The error of a line's rise over its length, at n points of equal distance, has 12/n times the variance of a point.
    let stamps = if packets > 6.0 { 12.0 / packets } else { 2.0 };
    STAMP_SCATTER_SECONDS.powi(2) * stamps + (MAX_SKEW * seconds).powi(2)
}

//! The capacity of the bottleneck: how fast it is when nobody else is there.
//!
//! Packets sent back to back come out of the narrowest link at its pace, so that their dispersion tells its rate, unless
//! other packets get between them or delay some of them later on. Those that nothing delayed have the least delay: of
//! many bursts of one shape whose packets came in even steps, only those with the least *sum* of the first and the last
//! packet's delay are read (the filter of CapProbe: Kapoor, Chen, Lao, Gerla, Sanadidi, SIGCOMM 2004). Several shapes must
//! then agree.
//!
//! Where the sender is hardly faster than the link, or cross traffic's packets are small, they get into all bursts, and
//! nothing tells such a burst from an undelayed one of a slower link. So the packets of some bursts are sent farther apart:
//! the longer sending takes, the more cross traffic a burst holds in the mean. Extrapolated to no time at all, that tells the
//! link's own pace. Where it is faster than the undelayed bursts', the interval reaches from the one to the other.
//!
//! A token bucket lets short bursts pass at the rate of the line behind it. So a longer train goes first: where the rate
//! at which it comes falls for good, after the same number of bytes each time that the bucket has had time to fill, there
//! is a shaper, and both rates and the bucket are known.
//!
//! Rates count IP packets. Headers of lower layers are not seen: the rate is that of packets of the largest size.

mod burst;
mod config;
mod cross_traffic;
mod filter;
mod long_train;
mod observations;
mod plan;
mod probe;
mod result;
mod sample;
mod shape;
pub(crate) mod shaping;

pub use config::CapacityConfig;
pub use probe::CapacityProbe;
pub use result::{Capacity, Shaper, Shaping};

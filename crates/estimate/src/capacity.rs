//! The capacity of the narrow link (RFC 5136): its rate without cross traffic.
//!
//! Packets sent back to back leave the narrow link at its rate, so that their dispersion shows it, unless other packets
//! get between them or delay some of them later. Packets that nothing delayed have the least delay: of many bursts of one
//! shape whose packets arrived at even intervals, only those with the least *sum* of the first and the last packet's delay
//! are used (the filter of CapProbe: Kapoor, Chen, Lao, Gerla, Sanadidi, SIGCOMM 2004). Several shapes must then agree.
//!
//! Where the sender is hardly faster than the link, or the packets of cross traffic are small, they get into all bursts,
//! and such a burst looks like an undelayed one of a slower link. Therefore the packets of some bursts are sent farther
//! apart: the longer sending takes, the more cross traffic a burst contains on average. Extrapolated to a sending time of
//! zero, this shows the link's own rate. Where that is higher than the rate of the undelayed bursts, the interval reaches
//! from the one to the other.
//!
//! A token bucket lets short bursts pass at its peak rate. Therefore a longer train goes first: where the rate of its
//! arrivals falls permanently, after the same number of bytes each time that the bucket has had time to fill, there is a
//! shaper, and peak rate, committed rate and burst size are known.
//!
//! A bucket of two to four packets, as the kernel's HTB has by default, lets the first packets of each train pass at once, and
//! dispersion counts from the first that waits for tokens. Where flows are served in turn, all packets of one flow but the first
//! few come more slowly, too: then, others' packets have most bursts wait.
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
mod reason;
mod result;
mod sample;
mod shape;
pub(crate) mod shaping;
mod small_bucket;

pub use config::CapacityConfig;
pub use probe::CapacityProbe;
pub use reason::CapacityReason;
pub use result::{Capacity, Shaper, Shaping};

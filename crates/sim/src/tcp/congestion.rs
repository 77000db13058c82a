//! How much a TCP sender may have in flight: the controllers whose flows meet at a bottleneck.
//!
//! A [`Controller`] is told what the sender learns, in the sender's order, and answers with a window and, if it paces,
//! with a rate. It never sees the network. Windows count segments; a sender has at most [`Controller::window`] of them
//! in flight, rounded down but at least one.
//!
//! During fast recovery the sender reduces what is in flight towards [`Controller::threshold`] by itself (RFC 6937) and
//! calls [`Controller::on_recovery_end`] at the end; a controller that [steers recovery itself](Controller::sets_window_in_recovery)
//! is left alone.

mod bbr;
mod bic;
mod compound;
mod controller;
mod cubic;
mod dctcp;
#[cfg(test)]
mod fluid;
mod hystart;
mod marks;
mod new_reno;
mod prague;
mod rounds;
#[cfg(test)]
mod tests;
mod vegas;
mod window;
mod windowed;

pub use bbr::Bbr;
pub use bic::Bic;
pub use compound::Compound;
pub use controller::{Ack, Controller, DeliveryRate, Reduction};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use new_reno::NewReno;
pub use prague::Prague;
pub use vegas::Vegas;

use kumade_link::queue::Ecn;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The choice of a congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControl {
    /// [`NewReno`].
    NewReno,
    /// [`Bic`].
    Bic,
    /// [`Cubic`].
    Cubic,
    /// [`Compound`].
    Compound,
    /// [`Vegas`].
    Vegas,
    /// [`Bbr`].
    Bbr,
    /// [`Dctcp`].
    Dctcp,
    /// [`Prague`].
    Prague,
}

impl CongestionControl {
    /// Every one, by name.
    pub const ALL: [(&'static str, CongestionControl); 8] = [
        ("new-reno", CongestionControl::NewReno),
        ("bic", CongestionControl::Bic),
        ("cubic", CongestionControl::Cubic),
        ("compound", CongestionControl::Compound),
        ("vegas", CongestionControl::Vegas),
        ("bbr", CongestionControl::Bbr),
        ("dctcp", CongestionControl::Dctcp),
        ("prague", CongestionControl::Prague),
    ];

    /// The controller of a connection that begins and sends segments of `segment_bytes`, as IP packets.
    pub fn build(self, segment_bytes: u32) -> Box<dyn Controller> {
        match self {
            CongestionControl::NewReno => Box::new(NewReno::new()),
            CongestionControl::Bic => Box::new(Bic::new()),
            CongestionControl::Cubic => Box::new(Cubic::new(segment_bytes)),
            CongestionControl::Compound => Box::new(Compound::new()),
            CongestionControl::Vegas => Box::new(Vegas::new()),
            CongestionControl::Bbr => Box::new(Bbr::new(segment_bytes)),
            CongestionControl::Dctcp => Box::new(Dctcp::new()),
            CongestionControl::Prague => Box::new(Prague::new(segment_bytes)),
        }
    }

    /// What its packets say of ECN where it is used as it is meant to be: DCTCP and Prague live on marks, and Prague expects those of
    /// L4S (RFC 9331, section 4.1). The others do without.
    pub fn usual_ecn(self) -> Ecn {
        match self {
            CongestionControl::Dctcp => Ecn::Ect0,
            CongestionControl::Prague => Ecn::Ect1,
            _ => Ecn::NotEct,
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = CongestionControl::ALL.iter().find(|(_, control)| control == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

/// There is no congestion controller of this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{word}` is not a congestion control; choose one of {}", CongestionControl::ALL.map(|(name, _)| name).join(", "))]
pub struct UnknownControl {
    word: String,
}

impl FromStr for CongestionControl {
    type Err = UnknownControl;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = CongestionControl::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, control)| *control).ok_or_else(|| UnknownControl { word: word.to_owned() })
    }
}

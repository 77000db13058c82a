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
#[cfg(test)]
mod fluid;
mod hystart;
mod new_reno;
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
pub use new_reno::NewReno;
pub use vegas::Vegas;

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
}

impl CongestionControl {
    /// Every one, by name.
    pub const ALL: [(&'static str, CongestionControl); 6] = [
        ("new-reno", CongestionControl::NewReno),
        ("bic", CongestionControl::Bic),
        ("cubic", CongestionControl::Cubic),
        ("compound", CongestionControl::Compound),
        ("vegas", CongestionControl::Vegas),
        ("bbr", CongestionControl::Bbr),
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

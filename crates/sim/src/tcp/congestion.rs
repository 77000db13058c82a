//! How much a TCP sender may have in flight: the controllers whose flows meet at a bottleneck.
//!
//! A [`Controller`] hears what the sender learns, in the sender's order, and answers with a window and, if it paces,
//! with a rate. It never sees the network. Windows count segments; a sender has at most [`Controller::window`] of them
//! in flight, rounded down but at least one.
//!
//! During fast recovery the sender reduces what is in flight towards [`Controller::threshold`] by itself (RFC 6937) and
//! calls [`Controller::recovered`] at the end; a controller that [steers recovery itself](Controller::steers_recovery)
//! is left alone.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use units::{Rate, Span, Time};

/// What an acknowledgement that brings news tells a controller.
#[derive(Debug, Clone, Copy)]
pub struct Ack {
    /// When it reached the sender.
    pub now: Time,
    /// Segments that it newly acknowledges in sequence.
    pub acked: u32,
    /// Segments that it reports delivered for the first time: in sequence or by SACK.
    pub delivered: u32,
    /// Segments that it made the sender take for lost.
    pub lost: u32,
    /// Round-trip time of the newest segment acknowledged, unless that was sent twice (Karn's rule).
    pub round_trip: Option<Span>,
    /// The sender's smoothed round-trip time (RFC 6298).
    pub smoothed_round_trip: Span,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Segments in flight just before it.
    pub was_in_flight: u32,
    /// Whether the window was what kept the sender from sending more in this flight (RFC 7661); windows grow only then.
    pub window_limited: bool,
    /// Why the sender reduces its window at present, if it does. After a timeout it does not: windows grow again at once.
    pub reduction: Option<Reduction>,
    /// How fast the network delivers, if the acknowledgement could tell (draft-cheng-iccrg-delivery-rate-estimation).
    pub delivery: Option<DeliveryRate>,
    /// Segments delivered since the connection began.
    pub total_delivered: u64,
    /// What [`Ack::total_delivered`] was when the newest segment acknowledged was sent: a round trip has passed when it
    /// reaches what it was at the round's beginning.
    pub delivered_when_sent: u64,
}

/// Why a sender reduces its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// It answers a mark; nothing is sent again.
    Mark,
    /// It repairs losses.
    Loss,
}

/// A sample of the delivery rate.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryRate {
    /// IP-layer bits per second.
    pub rate: Rate,
    /// Whether the sender had nothing more to send then, so that the path may carry more.
    pub application_limited: bool,
}

/// A congestion controller.
pub trait Controller: std::fmt::Debug {
    /// Segments that may be in flight.
    fn window(&self) -> f64;

    /// The slow-start threshold in segments; infinite before the first loss.
    fn threshold(&self) -> f64;

    /// The rate at which to space segments, in IP-layer bits per second; `None` sends whatever the window allows at once.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// Whether the controller sets its window in recovery too.
    fn steers_recovery(&self) -> bool {
        false
    }

    /// Something new was acknowledged.
    fn acknowledged(&mut self, ack: &Ack);

    /// A loss, or an echoed mark, begins a recovery: at most once per round trip.
    fn congested(&mut self, now: Time, in_flight: u32);

    /// All that was in flight when the recovery began is acknowledged.
    fn recovered(&mut self, now: Time);

    /// The retransmission timer ran out: all that should have arrived counts as lost, and `in_flight` is the rest. `again`
    /// says that it did so for the same segment before.
    fn timed_out(&mut self, now: Time, in_flight: u32, again: bool);

    /// The recovery or timeout was not called for: what was taken for lost arrived (RFC 3522, RFC 8985). The controller
    /// may take its reduction back.
    fn undone(&mut self, now: Time) {
        let _ = now;
    }
}

mod bbr;
mod bic;
mod compound;
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
pub use cubic::Cubic;
pub use new_reno::NewReno;
pub use vegas::Vegas;

/// The choice of a congestion controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
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

impl Control {
    /// Every one, by name.
    pub const ALL: [(&'static str, Control); 6] = [
        ("new-reno", Control::NewReno),
        ("bic", Control::Bic),
        ("cubic", Control::Cubic),
        ("compound", Control::Compound),
        ("vegas", Control::Vegas),
        ("bbr", Control::Bbr),
    ];

    /// The controller of a connection that begins and sends segments of `segment_bytes`, as IP packets.
    pub fn build(self, segment_bytes: u32) -> Box<dyn Controller> {
        match self {
            Control::NewReno => Box::new(NewReno::new()),
            Control::Bic => Box::new(Bic::new()),
            Control::Cubic => Box::new(Cubic::new(segment_bytes)),
            Control::Compound => Box::new(Compound::new()),
            Control::Vegas => Box::new(Vegas::new()),
            Control::Bbr => Box::new(Bbr::new(segment_bytes)),
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Control::ALL.iter().find(|(_, control)| control == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

/// A word that names no congestion controller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no congestion controller `{word}`; give one of {}", Control::ALL.map(|(name, _)| name).join(", "))]
pub struct UnknownControl {
    word: String,
}

impl FromStr for Control {
    type Err = UnknownControl;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Control::ALL.iter().find(|(name, _)| *name == word);
        found.map(|(_, control)| *control).ok_or_else(|| UnknownControl { word: word.to_owned() })
    }
}

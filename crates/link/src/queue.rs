//! What waits for a link, which of it goes next, and what is dropped or marked so that the rest fares better.
//!
//! A [`QueueDiscipline`] decides at two moments only: when a packet arrives and when the link can take one. Like all
//! of this crate it is told the time, draws what is random from a seed, and needs bounded memory; once its buffers have
//! grown to what a load needs, it allocates nothing. [`Queue`] is any of them, chosen by a [`QueueConfig`].
//!
//! The caller says which flow a packet belongs to (a number; a hash of its addresses and ports, say) and whether its
//! sender understands marks (ECN, RFC 3168). A discipline believes both.

mod active;
mod afd;
mod buffer;
mod choke;
mod codel;
mod counts;
mod fair_codel;
mod fair_share;
mod flow_rates;
mod fq_codel;
mod heavy;
mod red;
mod settings;
mod slab;
#[cfg(test)]
mod tests;

pub use active::{ActiveDropping, ActiveDroppingConfig};
pub use afd::{Afd, AfdConfig};
pub use buffer::TailDrop;
pub use choke::Choke;
pub use codel::{CoDel, CoDelConfig, ControlLaw};
pub use fair_codel::{FairCoDel, FairCoDelConfig};
pub use fair_share::{FairShare, FairShareConfig};
pub use fq_codel::{FqCoDel, FqCoDelConfig};
pub use heavy::{Heavy, History, Preference};
pub use red::{Red, RedConfig, RedQueue};
pub use settings::{DisciplineSettings, ParameterError};

use crate::DropCause;
use crate::random::mix;
use units::ConfigError;
use units::Time;

/// The ECN field of an IP packet (RFC 3168).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// Its sender knows nothing of marks: it can only be dropped.
    #[default]
    NotCapable,
    /// ECT(0).
    Capable0,
    /// ECT(1), which RFC 9331 gives to senders that expect many marks. It is marked like the other here.
    Capable1,
    /// A queue before this one has marked it.
    Marked,
}

/// A packet as a queue sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued<P> {
    /// What the caller wants back.
    pub content: P,
    /// IP packet size in bytes.
    pub size: u32,
    /// Which flow it belongs to.
    pub flow: u64,
    /// As its sender, or a queue before, set it.
    pub ecn: Ecn,
    /// Whether this queue has marked it.
    pub marked: bool,
    /// When it reached the queue.
    pub arrival: Time,
}

/// A packet that a queue has dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: Queued<P>,
    /// Why.
    pub cause: DropCause,
}

/// How much may wait. What does not fit is dropped, whatever the discipline. All but tail drop need room for a packet
/// at an idle link too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// This many bytes of IP packets.
    Bytes(u64),
    /// This many packets of any size.
    Packets(u64),
}

/// Which packets wait, go and are dropped. Times never run backwards from call to call.
pub trait QueueDiscipline<P> {
    /// A packet arrives, at the time that it says, while the link is busy or others wait. Whatever is dropped over it
    /// is added to `drops`; the error says that the arriving packet is among them.
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause>;

    /// The packet whose service begins now. What is dropped in its place is added to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>>;

    /// A packet arrives while the link is idle and nothing waits: it need not wait either.
    fn pass(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<Queued<P>, DropCause> {
        let now = packet.arrival;
        self.enqueue(packet, drops)?;
        self.dequeue(now, drops).ok_or(DropCause::Managed)
    }

    /// When a dequeue that gave nothing though packets wait may give one. A discipline that never keeps the link
    /// waiting has no such time.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Their bytes.
    fn bytes(&self) -> u64;
}

/// A discipline and its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// How much may wait.
    pub limit: Limit,
    /// Which packets go and which are dropped.
    pub discipline: Discipline,
}

/// The disciplines with their settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Discipline {
    /// First in, first out; see [`TailDrop`].
    TailDrop,
    /// Bounds how long packets wait; see [`CoDel`].
    CoDel(CoDelConfig),
    /// Drops by chance as the queue grows; see [`Red`].
    Red(RedConfig),
    /// RED that drops by preference from heavy flows; see [`ActiveDropping`].
    ActiveDropping(ActiveDroppingConfig),
    /// CoDel that drops by preference from heavy flows; see [`FairCoDel`].
    FairCoDel(FairCoDelConfig),
    /// RED that lets flows meet themselves; see [`Choke`].
    Choke(RedConfig),
    /// Drops what flows send beyond the fair share; see [`Afd`].
    Afd(AfdConfig),
    /// A queue and a CoDel for each flow; see [`FqCoDel`].
    FqCoDel(FqCoDelConfig),
    /// The project's own: flows pay for what they send beyond the fair share; see [`FairShare`].
    FairShare(FairShareConfig),
}

/// A queue of any discipline.
#[derive(Debug)]
pub enum Queue<P> {
    /// See [`Discipline::TailDrop`].
    TailDrop(TailDrop<P>),
    /// See [`Discipline::CoDel`].
    CoDel(CoDel<P>),
    /// See [`Discipline::Red`].
    Red(Red<P>),
    /// See [`Discipline::ActiveDropping`].
    ActiveDropping(ActiveDropping<P>),
    /// See [`Discipline::FairCoDel`].
    FairCoDel(FairCoDel<P>),
    /// See [`Discipline::Choke`].
    Choke(Choke<P>),
    /// See [`Discipline::Afd`].
    Afd(Afd<P>),
    /// See [`Discipline::FqCoDel`].
    FqCoDel(FqCoDel<P>),
    /// See [`Discipline::FairShare`].
    FairShare(FairShare<P>),
}

/// The same expression for whichever discipline it is.
macro_rules! each {
    ($queue:expr, $inner:ident => $what:expr) => {
        match $queue {
            Queue::TailDrop($inner) => $what,
            Queue::CoDel($inner) => $what,
            Queue::Red($inner) => $what,
            Queue::ActiveDropping($inner) => $what,
            Queue::FairCoDel($inner) => $what,
            Queue::Choke($inner) => $what,
            Queue::Afd($inner) => $what,
            Queue::FqCoDel($inner) => $what,
            Queue::FairShare($inner) => $what,
        }
    };
}

impl<P> Queue<P> {
    /// An empty queue. `seed` decides what is random in it.
    pub fn new(config: &QueueConfig, seed: u64) -> Result<Self, ConfigError> {
        let limit = config.limit;
        // A link draws losses from the same seed; the two must not follow each other.
        let seed = mix(seed);
        Ok(match &config.discipline {
            Discipline::TailDrop => Queue::TailDrop(TailDrop::new(limit)),
            Discipline::CoDel(config) => Queue::CoDel(CoDel::new(limit, *config)?),
            Discipline::Red(config) => Queue::Red(Red::new(limit, *config, seed)?),
            Discipline::ActiveDropping(config) => Queue::ActiveDropping(ActiveDropping::new(limit, config, seed)?),
            Discipline::FairCoDel(config) => Queue::FairCoDel(FairCoDel::new(limit, config, seed)?),
            Discipline::Choke(config) => Queue::Choke(Choke::new(limit, *config, seed)?),
            Discipline::Afd(config) => Queue::Afd(Afd::new(limit, *config, seed)?),
            Discipline::FqCoDel(config) => Queue::FqCoDel(FqCoDel::new(limit, *config, seed)?),
            Discipline::FairShare(config) => Queue::FairShare(FairShare::new(limit, *config, seed)?),
        })
    }
}

impl<P> QueueDiscipline<P> for Queue<P> {
    fn enqueue(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
        each!(self, queue => queue.enqueue(packet, drops))
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<Dropped<P>>) -> Option<Queued<P>> {
        each!(self, queue => queue.dequeue(now, drops))
    }

    fn pass(&mut self, packet: Queued<P>, drops: &mut Vec<Dropped<P>>) -> Result<Queued<P>, DropCause> {
        each!(self, queue => queue.pass(packet, drops))
    }

    fn next_event(&self) -> Option<Time> {
        each!(self, queue => QueueDiscipline::<P>::next_event(queue))
    }

    fn packets(&self) -> usize {
        each!(self, queue => queue.packets())
    }

    fn bytes(&self) -> u64 {
        each!(self, queue => queue.bytes())
    }
}

impl<P> Queued<P> {
    /// A packet without marks that reaches a queue at `arrival`.
    pub fn new(content: P, size: u32, flow: u64, arrival: Time) -> Self {
        Queued { content, size, flow, ecn: Ecn::NotCapable, marked: false, arrival }
    }

    /// Marks the packet, if its sender understands that; it must be dropped otherwise.
    pub(crate) fn mark(&mut self) -> bool {
        self.marked |= self.ecn != Ecn::NotCapable;
        self.marked
    }
}

impl Limit {
    /// Whether a packet of `size` fits beside what waits already.
    pub(crate) fn leaves_room(self, packets: usize, bytes: u64, size: u32) -> bool {
        match self {
            Limit::Bytes(limit) => bytes.saturating_add(size.into()) <= limit,
            Limit::Packets(limit) => (packets as u64) < limit,
        }
    }
}

/// Drops a packet that has just arrived.
fn turn_away<P>(packet: Queued<P>, cause: DropCause, drops: &mut Vec<Dropped<P>>) -> Result<(), DropCause> {
    drops.push(Dropped { packet, cause });
    Err(cause)
}

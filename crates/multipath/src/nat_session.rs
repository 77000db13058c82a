//! NAT sessions: single flows that two gateways agree to translate and to divide, set up by their first packet and ended
//! when none has passed for a while.
//!
//! ```text
//! sending gateway                       receiving gateway
//!   a packet of a new flow ── NAT ──▶   installs a rule that gives arriving packets the flow's addresses back
//!   divides and translates ◀── +OK ──
//!   …                      ── CHECK ─▶  keeps the rules of the sessions that are mentioned
//!                          ◀─ KNOWN ──  names those that it does not know: they are asked for again
//!   none for three minutes ── FIN ───▶  removes the rule
//!   forgets the session    ◀── +FIN ──
//! ```
//!
//! A [`NatPeer`] is one gateway's part of all sessions with one other gateway, in both roles. It is pure: it takes the time
//! and what happened, and says what to do ([`NatAction`]); what the kernel, keys and sockets do is its caller's. Until the
//! far end has confirmed a session, and once it is in doubt, packets go as they would without one.
//!
//! **Loop contract.** Times never go back. After each call, carry out what [`NatPeer::next_action`] says, in its order,
//! until it says nothing, and report at once what could not be done; sleep until [`NatPeer::next_deadline`] or the next
//! event. Tell now and then what has passed of each flow ([`NatPeer::flow_used`]), and then that this is all
//! ([`NatPeer::counters_read`]): no session ends as idle before.
//!
//! What holds, whatever is lost, repeated, reordered, and whichever gateway restarts:
//!
//! - A flow is divided only once the far end has confirmed its rule. `NAT` and `FIN` are repeated after 0.5 s, 1 s … 8 s.
//! - Each second a gateway mentions sessions that it has asked for. The far end names those that it lacks, and forgets a
//!   rule that was not mentioned for two minutes. A gateway that gets no answer for five seconds divides nothing any more.
//! - Each message carries the number of its sender's life, and of the receiver's as far as it is known: after a restart the
//!   far end's rules are forgotten, and what it had agreed to is asked for again.
//! - There are at most [`NatConfig::max_sessions`] in each role, and messages beyond a rate are dropped. A rule that the
//!   far end asks for is installed only if the caller permits it.

mod action;
mod config;
mod incarnation;
mod message;
mod outbox;
mod peer;
mod receiving;
mod rule;
mod sending;
mod statistics;
mod timers;

pub use action::NatAction;
pub use config::NatConfig;
pub use incarnation::Incarnation;
pub use message::{NatContent, NatMessage, RefusalReason};
pub use peer::NatPeer;
pub use rule::{DividedRule, RestoredRule};
pub use statistics::{NatRole, NatStatistics, SessionPhase, SessionStatus};

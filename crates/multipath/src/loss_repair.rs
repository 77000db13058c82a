//! Datagrams that a path has lost are repeated on the path where they arrive first, before TCP connections inside notice.
//!
//! The receiving end finds what is missing on each path and says so ([`MissingDatagrams`]); the sending end keeps what it has sent of late
//! ([`RepeatStore`](store::RepeatStore)); the [`Resequencer`](crate::Resequencer) waits for what is repeated. What is repeated has
//! the number of what was lost, so that it comes once, whatever comes after all. It costs a packet that follows a loss in its
//! bucket the round trip of the fastest path, and no memory, time or traffic beyond what stands beside the limits here.

pub(crate) mod missing;
pub(crate) mod store;

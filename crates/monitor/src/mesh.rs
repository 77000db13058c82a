//! A mesh: agents that measure between each other, and the coordinator that tells them when and takes what they find.
//!
//! An agent connects to its coordinator over TCP; the Noise handshake shows who each is. The coordinator
//! [assigns](frame::Assignment) light probes, which go on whether it is there or not, and grants runs; the agent delivers
//! batches under numbers of its own, and keeps each until it is acknowledged, which is once it is in the archive.

pub(crate) mod agent;
mod agent_files;
mod agent_probes;
mod answering;
pub(crate) mod budget;
mod condition;
pub(crate) mod day_budget;
mod dial;
pub(crate) mod frame;
mod frame_stream;
mod initiated_run;
pub(crate) mod listener;
mod outbox;
pub(crate) mod own_agent;
pub(crate) mod peer_path;
pub(crate) mod plan;
mod spool;
mod train_budget;

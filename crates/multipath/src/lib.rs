//! Several paths between two gateways as one: which path takes the next packet, how each path does, and in which order
//! packets come out at the far end.
//!
//! Nothing here sends or receives. A gateway that sends asks for a path for each packet and numbers it; one that receives
//! hands over what arrived, and is told what to deliver. Addresses, encryption and sockets are its own.
//!
//! **Loop contract.** Times come in with each call and never go back. Hand over each packet and each event when it
//! happened; then drain what came of it; then sleep until the earliest deadline that is told, or the next event. Nothing
//! happens between calls.
#![forbid(unsafe_code)]

mod adaptation;
mod bond;
mod bond_config;
mod bond_outgoing;
mod bond_queue;
mod carried_data;
mod carrier_choice;
mod choice;
mod choice_flows;
mod choice_pinned;
mod connection_count;
mod health;
mod health_round_trip;
mod large_packets;
pub mod measured;
pub mod message;
pub mod nat_session;
mod path_carrier;
mod path_id;
mod path_mtu;
mod path_report;
mod path_sent;
mod path_state;
mod predecessor;
mod rate;
mod rate_delay;
mod rate_delay_base;
mod rate_loss;
mod rate_view;
pub mod resequencer;
mod sequencer;
mod shared_path;
mod shared_paths;
mod stream_carrier;
mod use_several;

pub use adaptation::Adaptation;
pub use bond::{Bond, Merge, PathEvent, ReadPayload};
pub use bond_config::BondConfig;
pub use bond_outgoing::{Outgoing, Transmission};
pub use carrier_choice::{CarrierChoice, CarrierKind, CarrierView};
pub use choice::{Class, PathChoice, ShareUnit, UnorderedFlows};
pub use health::PathState;
pub use large_packets::MAX_LARGE_PACKET;
pub use path_carrier::CarrierState;
pub use path_id::PathId;
pub use path_mtu::{MtuProbe, PathMtu};
pub use path_report::{PathReceiver, Report};
pub use path_state::{FlowControl, PathConfig, PathStatus};
pub use predecessor::Predecessor;
pub use resequencer::{Arrival, DelayRange, Resequencer, ResequencerConfig, ResequencerStatistics, WaitStatistics};
pub use sequencer::{Assignment, Sequencer};
pub use shared_paths::SharedPaths;
pub use stream_carrier::{StreamCarrier, StreamState};
pub use use_several::{PathEstimate, PathSet, UseSeveral, best_set, expected_rate};

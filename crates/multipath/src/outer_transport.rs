//! What carries a path's packets: UDP datagrams or TCP connections, which of both, and how much connections are given.

pub(crate) mod connection_count;
pub(crate) mod in_flight_control;
pub(crate) mod in_flight_data;
pub(crate) mod kind;
pub(crate) mod selector;
pub(crate) mod stream_writer;

use kumade_packet::DsField;
use kumade_units::Time;

/// A packet that reaches a hop, or has passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketAtHop {
    /// Its place in the train.
    pub(crate) index: usize,
    /// Its flow.
    pub(crate) flow: u64,
    /// Bytes of the IP packet.
    pub(crate) size: u32,
    /// Its octet of DSCP and ECN.
    pub(crate) ds_field: DsField,
    /// When it does so.
    pub(crate) time: Time,
}

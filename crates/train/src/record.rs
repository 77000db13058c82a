use units::Time;

/// What became of one packet. The two stamps come from two clocks: only their *changes* may be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// Bytes of the IP packet as sent.
    pub size: u32,
    /// When it left the sender, by the sender's clock; none where it was never sent or its stamp was lost.
    pub sent: Option<Time>,
    /// When it reached the receiver, by the receiver's clock; none where it was lost or its stamp was.
    pub received: Option<Time>,
}

/// What became of one train, packet by packet in the order of sending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainRecord {
    /// One for each packet of the plan.
    pub packets: Vec<PacketRecord>,
}

use kumade_wire::PresharedKey;

/// A client that has a key of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedClient {
    /// Names it in the log.
    pub name: String,
    /// By which it is known.
    pub key: PresharedKey,
    /// What it may do.
    pub quota: Quota,
}

/// What a client may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Maximum number of IP bytes of trains, as planned, and of bytes that fill the path, both directions together, in any 24
    /// hours; none for no limit but that of each turn.
    pub bytes_per_day: Option<u64>,
    /// Maximum number of measurements (turns) that begin in any hour; none for no limit.
    pub measurements_per_hour: Option<u32>,
    /// Whether it may not fill the path by TCP transfers ([`ClientMessage::Load`](kumade_wire::ClientMessage::Load)).
    pub denies_load: bool,
}

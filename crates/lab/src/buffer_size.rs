use kumade_link::queue::QueueLimit;
use kumade_units::{Rate, Span, parse};
use serde::Deserialize;
use std::str::FromStr;

/// A queue's capacity: `256kb` (bytes), `250p` (packets), or `1rtt`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum BufferSize {
    /// A number of bytes.
    Bytes(u64),
    /// A number of packets.
    Packets(u64),
    /// What the link carries in so many round-trip times, and no less than [`BufferSize::MIN_PACKETS`].
    RoundTrips(f64),
}

impl BufferSize {
    /// A queue sized by round-trip times holds at least so many full packets: on the shortest paths, one of each connection
    /// would fill it.
    pub const MIN_PACKETS: u64 = 100;

    /// On a link of that rate, with paths of that round-trip time.
    pub fn to_limit(self, rate: Rate, round_trip: Span) -> QueueLimit {
        match self {
            BufferSize::Bytes(bytes) => QueueLimit::Bytes(bytes),
            BufferSize::Packets(packets) => QueueLimit::Packets(packets),
            BufferSize::RoundTrips(count) => {
                let bytes = rate.bytes_in(Span::from_secs_f64(round_trip.as_secs_f64() * count));
                QueueLimit::Bytes(bytes.max(Self::MIN_PACKETS * 1500))
            }
        }
    }
}

impl FromStr for BufferSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|n| (0.0..1e9).contains(n));
        if let Some(count) = text.strip_suffix("rtt").and_then(number) {
            return Ok(BufferSize::RoundTrips(count));
        }
        if let Some(packets) = text.strip_suffix('p').and_then(number) {
            return Ok(BufferSize::Packets(packets as u64));
        }
        parse::bytes(text)
            .map(BufferSize::Bytes)
            .map_err(|error| format!("{error}, 250p (packets) or 1rtt (round trips)"))
    }
}

impl TryFrom<String> for BufferSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

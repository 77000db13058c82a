use kumade_probe_train::Transport;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is special about a path. But for four kinds, all have constant or Poisson cross traffic or none; and but for three, one
/// bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PathKind {
    /// Nothing: a FIFO queue with room for every train.
    Fifo,
    /// A policer before a line that is 2 to 20 times as fast, with a burst of 10 kB to 1 MB.
    Policer,
    /// A token-bucket shaper before a line that is 2 to 20 times as fast, with a burst of 20 kB to 1 MB.
    Shaper,
    /// FQ-CoDel (RFC 8290), with one to four flows of cross traffic.
    FqCoDel,
    /// CoDel (RFC 8289).
    CoDel,
    /// RED.
    Red,
    /// The project's fair share, which serves flows in rounds.
    FairShare,
    /// A FIFO queue behind which packets are delayed at random, by up to 0.5 to 10 ms, in order.
    Jitter,
    /// A FIFO queue of 2 to 10 packets.
    ShortQueue,
    /// A FIFO queue on a path that loses 0.1 to 5 % of all packets, singly or in bursts.
    Loss,
    /// Two or three links, of which the narrow one is not the tight one: a faster link has less left.
    TightLink,
    /// A FIFO queue before a receiver that reports packets in batches, every 20 to 500 µs (interrupt coalescing).
    Batching,
    /// Two to eight FIFO queues side by side, 0.2 to 10 ms apart: each flow takes one of them (RFC 2991).
    LoadBalanced,
    /// A wireless last hop that sends 5 to 36 packets at once, at a physical rate that changes every 50 ms.
    Wifi,
    /// A cellular link, whose opportunities to send follow a model of measured ones: see [`super::cellular`].
    Cellular,
    /// A FIFO queue before 64 kbit/s to 2 Mbit/s.
    SlowLink,
    /// A FIFO queue on a path with a round-trip time of 0.2 to 1.2 s.
    LongDelay,
    /// A FIFO queue behind which 0.1 to 5 % of all packets come later, by 0.2 to 5 ms.
    Reordering,
    /// A FIFO queue behind which 0.1 to 5 % of all packets come twice.
    Duplication,
    /// A FIFO queue that is shared with 1, 4 or 16 TCP connections, CUBIC or BBR: greedy ones, which fill it, or ones that their
    /// receive windows bound.
    Elastic,
    /// PIE (RFC 8033).
    Pie,
    /// FQ-CoDel whose hosts take turns, as CAKE's do, with cross traffic of one to four hosts. All trains are one host's.
    HostFair,
    /// A FIFO queue, with cross traffic of packets of 64 to 1500 bytes: of one size, or of three mixed at random.
    PacketMix,
    /// A FIFO queue on a path with an MTU of 576 to 9000 bytes, which packets of cross traffic are as large as.
    Mtu,
    /// A FIFO queue, with cross traffic whose intervals differ from equal ones by up to 5 %, at random.
    JitteredCross,
    /// A FIFO queue before 1 to 100 Gbit/s.
    FastLink,
    /// Two FIFO queues with a proxy between them, which ends the TCP connections of both sides and passes no UDP. It wakes up 20 to
    /// 500 µs late at most; the headers behind it may have another length, and either side may lose up to 1 % of all packets.
    Proxy,
    /// A path of another kind with something else at one of its ends, as a home network behind an access line is: delays that vary as in
    /// [`PathKind::Jitter`], a receiver as in [`PathKind::Batching`], or up to 1 % of loss.
    Combined,
    /// A token-bucket shaper before a line that is 2 to 50 times as fast, with room for two to four packets, as the kernel's HTB has
    /// by default; and half of the time cross traffic that comes in bursts every millisecond, as programs send it.
    SmallBucket,
    /// A FIFO queue before 20 Mbit/s to 5 Gbit/s, with cross traffic that comes in bursts of 6 to 64 kB at ten times the link's rate, as senders
    /// with segmentation offload send them: at equal intervals, or at random.
    BurstyCross,
    /// A FIFO queue beside one sender at a constant rate that pauses: for some tenths of a second to some seconds, as a method for adaptive video does.
    OnOff,
    /// A FIFO queue before a link whose rate changes once, in the first seconds of a measurement, by a factor of 1.5 to 4 up or down.
    RateStep,
}

impl PathKind {
    /// All kinds.
    pub const ALL: [PathKind; 32] = [
        PathKind::Fifo,
        PathKind::Policer,
        PathKind::Shaper,
        PathKind::FqCoDel,
        PathKind::CoDel,
        PathKind::Red,
        PathKind::FairShare,
        PathKind::Jitter,
        PathKind::ShortQueue,
        PathKind::Loss,
        PathKind::TightLink,
        PathKind::Batching,
        PathKind::LoadBalanced,
        PathKind::Wifi,
        PathKind::Cellular,
        PathKind::SlowLink,
        PathKind::LongDelay,
        PathKind::Reordering,
        PathKind::Duplication,
        PathKind::Elastic,
        PathKind::Pie,
        PathKind::HostFair,
        PathKind::PacketMix,
        PathKind::Mtu,
        PathKind::JitteredCross,
        PathKind::FastLink,
        PathKind::Proxy,
        PathKind::Combined,
        PathKind::SmallBucket,
        PathKind::BurstyCross,
        PathKind::OnOff,
        PathKind::RateStep,
    ];

    /// As scenario files and reports call it.
    pub fn name(self) -> &'static str {
        match self {
            PathKind::Fifo => "fifo",
            PathKind::Policer => "policer",
            PathKind::Shaper => "shaper",
            PathKind::FqCoDel => "fq-codel",
            PathKind::CoDel => "codel",
            PathKind::Red => "red",
            PathKind::FairShare => "fair-share",
            PathKind::Jitter => "jitter",
            PathKind::ShortQueue => "short-queue",
            PathKind::Loss => "loss",
            PathKind::TightLink => "tight-link",
            PathKind::Batching => "batching",
            PathKind::LoadBalanced => "load-balanced",
            PathKind::Wifi => "wifi",
            PathKind::Cellular => "cellular",
            PathKind::SlowLink => "slow-link",
            PathKind::LongDelay => "long-delay",
            PathKind::Reordering => "reordering",
            PathKind::Duplication => "duplication",
            PathKind::Elastic => "elastic",
            PathKind::Pie => "pie",
            PathKind::HostFair => "host-fair",
            PathKind::PacketMix => "packet-mix",
            PathKind::Mtu => "mtu",
            PathKind::JitteredCross => "jittered-cross",
            PathKind::FastLink => "fast-link",
            PathKind::Proxy => "proxy",
            PathKind::Combined => "combined",
            PathKind::SmallBucket => "small-bucket",
            PathKind::BurstyCross => "bursty-cross",
            PathKind::OnOff => "on-off",
            PathKind::RateStep => "rate-step",
        }
    }

    /// Whether such paths pass this transport.
    pub fn can_carry(self, transport: Transport) -> bool {
        self != PathKind::Proxy || transport != Transport::Udp
    }
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<PathKind> for String {
    fn from(kind: PathKind) -> Self {
        kind.name().to_owned()
    }
}

impl TryFrom<String> for PathKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for PathKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(PathKind::name).join(", ");
            format!("`{text}` is not a kind of path; choose among {names}")
        })
    }
}

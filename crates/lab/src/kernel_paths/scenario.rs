use crate::accuracy::Transport;
use serde::{Deserialize, Serialize};

/// An experiment on the kernel's shapers. It comes from a scenario file, read and validated by [`load`](crate::load).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPaths {
    /// Its name, which is also that of the report's directory.
    pub name: String,
    /// The question in one line.
    pub title: String,
    /// The kinds of paths.
    pub kinds: Vec<KernelPathKind>,
    /// What carries the trains: UDP, or many TCP connections.
    pub transports: Vec<Transport>,
    /// Paths of each kind.
    pub runs: u32,
    /// Draws the first path of each kind; the next number draws the next.
    pub seed: u64,
}

/// What is special about a path. A seed draws by the place of the kind: new kinds go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelPathKind {
    /// HTB with a bucket of less than a packet: nearly a link.
    Htb,
    /// HTB with a bucket of two to six packets.
    HtbBucket,
    /// HTB whose leaves are served in turn, each for some flows, behind a bucket of less than a packet.
    HtbInTurn,
    /// HTB with a queue of few packets.
    ShortQueue,
    /// HTB before which packets of the measurement are lost at random.
    Loss,
    /// HTB beside traffic that is sent for 1.6 s and silent for 2.4 s.
    OnOff,
    /// HTB beside bursts of 40 packets.
    Bursts,
    /// HTB whose rate grows while it is measured.
    RateStep,
    /// Two HTB, of which the faster one leaves less.
    TightLink,
    /// TBF with a bucket of some packets, at the machine's rate.
    Tbf,
    /// TBF with a bucket of 30 to 300 kB, before a line.
    TbfBucket,
    /// TBF with a bucket that holds more than a measurement sends, before a line.
    TbfUnsent,
    /// The `limit` of nftables: a policer.
    Policer,
    /// FQ-CoDel behind HTB.
    FqCodel,
    /// Stochastic fairness queueing behind HTB.
    Sfq,
    /// Delay and loss of netem behind HTB.
    Netem,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelPathPoint {
    /// The kind of the path.
    pub kind: KernelPathKind,
    /// What it is drawn from.
    pub seed: u64,
    /// What carries the trains.
    pub transport: Transport,
}

impl KernelPathKind {
    /// As scenario files call it.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
    }
}

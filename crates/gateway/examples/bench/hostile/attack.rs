//! What a hostile peer does.

use super::Busy;
use super::datagrams::{self, DatagramAttack};
use super::streams::{self, StreamAttack};
use crate::outcome::Outcome;
use kumade_net::cpu::ReservedCpu;
use kumade_net::namespace::Namespace;

/// Where streams lead, on the honest peer's host: who sends without end, and who reads all.
pub const TARGET_PORTS: [u16; 2] = [9090, 9091];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// Nothing but the idle loop, to see what figures are worth.
    Nothing,
    Datagrams(DatagramAttack),
    Streams(StreamAttack),
}

impl Attack {
    pub const ALL: [Attack; 26] = [
        Attack::Nothing,
        Attack::Datagrams(DatagramAttack::Forged),
        Attack::Datagrams(DatagramAttack::Copies),
        Attack::Datagrams(DatagramAttack::Keepalives),
        Attack::Datagrams(DatagramAttack::ShortPackets),
        Attack::Datagrams(DatagramAttack::LongPackets),
        Attack::Datagrams(DatagramAttack::ForeignSources),
        Attack::Datagrams(DatagramAttack::Jumps),
        Attack::Datagrams(DatagramAttack::MissingPredecessors),
        Attack::Datagrams(DatagramAttack::Descending),
        Attack::Datagrams(DatagramAttack::Segments),
        Attack::Datagrams(DatagramAttack::Probes),
        Attack::Datagrams(DatagramAttack::Reports),
        Attack::Datagrams(DatagramAttack::MtuProbes),
        Attack::Datagrams(DatagramAttack::Forwarded),
        Attack::Datagrams(DatagramAttack::ManyPaths),
        Attack::Datagrams(DatagramAttack::ManySources),
        Attack::Datagrams(DatagramAttack::Connections),
        Attack::Datagrams(DatagramAttack::Handshakes),
        Attack::Streams(StreamAttack::Carriers),
        Attack::Streams(StreamAttack::Handshakes),
        Attack::Streams(StreamAttack::Unread),
        Attack::Streams(StreamAttack::Uploads),
        Attack::Streams(StreamAttack::Downloads),
        Attack::Streams(StreamAttack::LookUps),
        Attack::Streams(StreamAttack::Refused),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Attack::Nothing => "nothing",
            Attack::Datagrams(kind) => kind.name(),
            Attack::Streams(kind) => kind.name(),
        }
    }
}

/// An attack, and where it takes place.
pub struct Scene<'a> {
    pub attack: Attack,
    pub cpu: ReservedCpu,
    attacker: &'a Namespace,
    _targets: Option<streams::Targets>,
}

impl<'a> Scene<'a> {
    pub fn new(attack: Attack, targets: &Namespace, attacker: &'a Namespace, cpu: ReservedCpu) -> Outcome<Self> {
        let targets =
            matches!(attack, Attack::Streams(_)).then(|| streams::Targets::start(targets, cpu)).transpose()?;
        Ok(Scene { attack, cpu, attacker, _targets: targets })
    }

    /// The hostile peer with this number.
    pub fn start_peer(&self, number: usize) -> Outcome<Busy> {
        match self.attack {
            Attack::Nothing => Ok(Busy::idle(self.cpu)),
            Attack::Datagrams(kind) => {
                Busy::start(self.attacker, self.cpu, move |ends| datagrams::run(kind, number, ends))
            }
            Attack::Streams(kind) => Busy::start(self.attacker, self.cpu, move |ends| streams::run(kind, number, ends)),
        }
    }
}

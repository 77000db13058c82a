use crate::config::{BondedConfig, CarrierConfig};
use crate::connections::Connections;
use crate::datagrams::Datagrams;
use crate::error::BondedError;
use dataplane::{Node, Outbound};
use runtime::Buffer;
use std::os::fd::BorrowedFd;
use units::Time;

/// What carries sealed datagrams between the ends.
pub(crate) enum Carriers {
    Datagrams(Box<Datagrams>),
    Connections(Box<Connections>),
}

impl Carriers {
    /// Those of a shard.
    pub(crate) fn open(config: &BondedConfig, shard: usize) -> Result<Self, BondedError> {
        Ok(match &config.carriers {
            CarrierConfig::Datagrams(datagrams) => {
                Carriers::Datagrams(Box::new(Datagrams::open(config, datagrams, shard)?))
            }
            CarrierConfig::Connections(connections) => Carriers::Connections(Box::new(Connections::open(connections)?)),
        })
    }

    /// What becomes readable when there is something to do.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Carriers::Datagrams(datagrams) => datagrams.sources().collect(),
            Carriers::Connections(connections) => vec![connections.source()],
        }
    }

    /// Hands over what has arrived.
    pub(crate) fn receive(&mut self, node: &mut Node<Buffer>) -> Result<(), BondedError> {
        match self {
            Carriers::Datagrams(datagrams) => datagrams.receive(node),
            Carriers::Connections(connections) => Ok(connections.receive(node)?),
        }
    }

    /// Says how much they take now, before the node is drained.
    pub(crate) fn tell_room(&mut self, node: &mut Node<Buffer>, now: Time) {
        if let Carriers::Connections(connections) = self {
            connections.tell_room(node, now);
        }
    }

    /// Sends what the node has put out. Returns how many datagrams the system did not take.
    pub(crate) fn send(&mut self, datagrams: &mut Vec<Outbound<Buffer>>, node: &mut Node<Buffer>, now: Time) -> u64 {
        match self {
            Carriers::Datagrams(sockets) => sockets.send(datagrams, node, now),
            Carriers::Connections(connections) => connections.send(datagrams, node),
        }
    }

    /// Does what time brings. Returns when to be called again at the latest.
    pub(crate) fn follow(&mut self, node: &mut Node<Buffer>, now: Time) -> Option<Time> {
        match self {
            Carriers::Datagrams(datagrams) => {
                datagrams.follow(now);
                None
            }
            Carriers::Connections(connections) => connections.follow(node, now),
        }
    }
}

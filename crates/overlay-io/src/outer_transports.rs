use crate::config::BondedConfig;
use crate::connections::Connections;
use crate::datagrams::{Datagrams, ReceiveTurn};
use crate::error::BondedError;
use kumade_dataplane::{Node, Outbound};
use kumade_packet_loop::Buffer;
use kumade_units::Time;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// What carries sealed datagrams between the ends.
pub(crate) struct OuterTransports {
    datagrams: Option<Box<Datagrams>>,
    connections: Option<Box<Connections>>,
}

impl OuterTransports {
    /// Those of a shard.
    pub(crate) fn open(config: &BondedConfig, shard: usize) -> Result<Self, BondedError> {
        let datagrams = config.transports.datagrams().map(|datagrams| Datagrams::open(config, datagrams, shard));
        let first = config.datagram_path_count();
        let connections = config.transports.connections().map(|connections| Connections::open(connections, first));
        Ok(OuterTransports {
            datagrams: datagrams.transpose()?.map(Box::new),
            connections: connections.transpose()?.map(Box::new),
        })
    }

    /// Has the paths by datagrams of this configuration from now on, and sets on connections what it says.
    ///
    /// # Errors
    /// As [`Datagrams::reconfigure`].
    pub(crate) fn reconfigure(&mut self, config: &BondedConfig) -> Result<(), BondedError> {
        if let (Some(datagrams), Some(settings)) = (&mut self.datagrams, config.transports.datagrams()) {
            datagrams.reconfigure(config, settings)?;
        }
        if let (Some(connections), Some(settings)) = (&mut self.connections, config.transports.connections()) {
            connections.set_tuning(settings);
        }
        Ok(())
    }

    /// What becomes readable when there is something to do.
    pub(crate) fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let datagrams = self.datagrams.iter().flat_map(|datagrams| datagrams.sources());
        datagrams.chain(self.connections.iter().map(|connections| connections.source())).collect()
    }

    /// Whether there are other sources than when this was last asked.
    pub(crate) fn take_sources_change(&mut self) -> bool {
        self.datagrams.as_mut().is_some_and(|datagrams| datagrams.take_sources_change())
    }

    /// Begins to receive datagrams, where they carry anything.
    pub(crate) fn begin_turn(&self) -> Option<ReceiveTurn> {
        self.datagrams.as_ref().map(|datagrams| datagrams.begin_turn())
    }

    /// As [`Datagrams::receive_next`].
    pub(crate) fn receive_next(
        &mut self,
        turn: &mut ReceiveTurn,
        node: &mut Node<Buffer>,
    ) -> Result<bool, BondedError> {
        self.datagrams.as_mut().map_or(Ok(false), |datagrams| datagrams.receive_next(turn, node))
    }

    /// Hands over what has arrived by connections.
    pub(crate) fn receive_by_connections(&mut self, node: &mut Node<Buffer>) -> Result<(), BondedError> {
        Ok(self.connections.as_mut().map_or(Ok(()), |connections| connections.receive(node))?)
    }

    /// Says how much they take now, before the node is drained.
    pub(crate) fn report_room(&mut self, node: &mut Node<Buffer>, now: Time) {
        if let Some(connections) = &mut self.connections {
            connections.report_room(node, now);
        }
    }

    /// Sends what the node has put out. Returns how many datagrams the system did not take.
    pub(crate) fn send(&mut self, outbound: &mut Vec<Outbound<Buffer>>, node: &mut Node<Buffer>, now: Time) -> u64 {
        let mut refused = 0;
        if let Some(connections) = &mut self.connections {
            refused += connections.send(outbound, node);
        }
        if let Some(datagrams) = &mut self.datagrams {
            refused += datagrams.send(outbound, node, now);
        }
        refused
    }

    /// The only remote is elsewhere from now on.
    pub(crate) fn set_far_address(&mut self, address: SocketAddr, node: &mut Node<Buffer>, now: Time) {
        if self.datagrams.is_some() {
            Datagrams::set_far_address(address, node, now);
        }
        if let Some(connections) = &mut self.connections {
            connections.set_far_address(address, node, now);
        }
    }

    /// The remotes have other places from now on, by those before; `None` for those that are gone.
    pub(crate) fn move_remotes(&mut self, places: &[Option<usize>], node: &mut Node<Buffer>, now: Time) {
        if let Some(connections) = &mut self.connections {
            connections.move_remotes(places, node, now);
        }
    }

    /// Does what time brings. Returns when to be called again at the latest.
    pub(crate) fn advance(&mut self, node: &mut Node<Buffer>, now: Time) -> Option<Time> {
        let datagrams = self.datagrams.as_mut().and_then(|datagrams| datagrams.advance(node, now));
        let connections = self.connections.as_mut().and_then(|connections| connections.advance(node, now));
        datagrams.into_iter().chain(connections).min()
    }
}

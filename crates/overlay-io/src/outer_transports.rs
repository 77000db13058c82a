use crate::config::BondedConfig;
use crate::connections::Connections;
use crate::datagrams::Datagrams;
use crate::error::BondedError;
use crate::overhead_watch::OverheadWatch;
use crate::overload_limit::{OverloadTime, OverloadWatch};
use crate::receive_turn::{FinishedRead, ReceiveTurn, Sender, SourceSocket};
use kumade_daemon::FairTurns;
use kumade_dataplane::{Node, Outbound};
use kumade_net::clock;
use kumade_packet_loop::Buffer;
use kumade_units::Time;
use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// What carries sealed datagrams between the ends.
pub(crate) struct OuterTransports {
    datagrams: Option<Box<Datagrams>>,
    connections: Option<Box<Connections>>,
    /// Who is read next.
    turns: FairTurns<Sender>,
    /// Peers that take much time and bring hosts little.
    overhead: OverheadWatch,
    /// The time of all who send too much.
    overload_time: OverloadTime,
    /// When to look next at who does.
    next_look: Time,
    has_other_sources: bool,
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
            turns: FairTurns::default(),
            overhead: OverheadWatch::default(),
            overload_time: OverloadTime::new(),
            next_look: clock::monotonic() + OverloadWatch::LOOK_INTERVAL,
            has_other_sources: false,
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
        let datagrams = self.datagrams.iter().flat_map(|datagrams| datagrams.descriptors(&self.overhead));
        datagrams.chain(self.connections.iter().map(|connections| connections.descriptor())).collect()
    }

    /// Whether there are other sources than when this was last asked.
    pub(crate) fn take_sources_change(&mut self) -> bool {
        let of_datagrams = self.datagrams.as_mut().is_some_and(|datagrams| datagrams.take_sources_change());
        mem::take(&mut self.has_other_sources) | of_datagrams
    }

    /// Begins to receive what has arrived.
    ///
    /// # Errors
    /// The system refuses to wait for connections.
    pub(crate) fn begin_turn(&mut self) -> Result<ReceiveTurn, BondedError> {
        let now = clock::monotonic();
        let mut waiting: VecDeque<_> =
            self.datagrams.iter().flat_map(|datagrams| datagrams.sources(&self.overhead)).collect();
        if let Some(connections) = &mut self.connections {
            waiting.extend(connections.waiting_sources(now)?);
        }
        waiting.retain(|source| !source.is_held_back || self.overload_time.available_at(source.sender) <= now);
        Ok(ReceiveTurn::new(waiting, now))
    }

    /// Hands over what one socket has, the same time for each sender, with what it took to send and deliver what has come of it until
    /// this is called again. Returns whether there was one to read.
    ///
    /// # Errors
    /// The system refuses to receive datagrams.
    pub(crate) fn receive_next(
        &mut self,
        turn: &mut ReceiveTurn,
        node: &mut Node<Buffer>,
    ) -> Result<bool, BondedError> {
        let now = clock::monotonic();
        if let Some(read) = turn.end_read(&mut self.turns, now) {
            self.record_finished_read(&read, now);
        }
        let Some(source) = turn.begin_read(&mut self.turns, now) else { return Ok(false) };
        match (source.socket, &mut self.datagrams, &mut self.connections) {
            (SourceSocket::Datagrams(number), Some(datagrams), _) => {
                turn.record_read(datagrams.receive_from(number, source.limit, node)?);
            }
            (SourceSocket::Connection(number), _, Some(connections)) => {
                turn.record_read(connections.receive_from(number, source.limit, node));
            }
            _ => {}
        }
        Ok(true)
    }

    fn record_finished_read(&mut self, read: &FinishedRead, now: Time) {
        if read.source.is_held_back {
            self.overload_time.charge(read.source.sender, read.time, now);
        }
        if let Some(peer) = read.source.sender.peer() {
            self.overhead.record(peer, read.overhead(), read.has_more);
        }
        self.datagrams.iter_mut().for_each(|datagrams| datagrams.record_finished_read(read));
        self.connections.iter_mut().for_each(|connections| connections.record_finished_read(read, now));
    }

    /// Looks at who sends too much. Returns when those have time again.
    fn hold_back(&mut self, now: Time) -> Option<Time> {
        if now >= self.next_look {
            self.next_look = now + OverloadWatch::LOOK_INTERVAL;
            self.has_other_sources |= self.overhead.update();
            self.datagrams.iter_mut().for_each(|datagrams| datagrams.update_watches());
            self.connections.iter_mut().for_each(|connections| connections.hold_back(&self.overhead));
        }
        let datagrams = self.datagrams.iter().flat_map(|datagrams| datagrams.sources(&self.overhead));
        let held_back = datagrams.filter(|source| source.is_held_back).map(|source| source.sender);
        let by_connections = self.connections.iter().flat_map(|connections| connections.held_back_sender());
        held_back.chain(by_connections).map(|sender| self.overload_time.available_at(sender)).min()
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
        self.turns = FairTurns::default();
        self.overhead.clear();
        if let Some(connections) = &mut self.connections {
            connections.move_remotes(places, node, now);
        }
    }

    /// Does what time brings. Returns when to be called again at the latest.
    pub(crate) fn advance(&mut self, node: &mut Node<Buffer>, now: Time) -> Option<Time> {
        self.datagrams.iter_mut().for_each(|datagrams| datagrams.advance(node, now));
        let held_back = self.hold_back(now);
        let connections = self.connections.as_mut().and_then(|connections| connections.advance(node, now));
        held_back.into_iter().chain(connections).min()
    }
}

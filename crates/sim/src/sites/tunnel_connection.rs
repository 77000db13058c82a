use super::packet::OuterPacket;
use crate::tcp::{TcpConnection, TcpSegment};
use kumade_multipath::{StreamDelivery, StreamWriter};
use kumade_units::Time;
use std::collections::VecDeque;

/// A connection that carries datagrams as records, and what it is asked for and given: as the programs have it in real time.
#[derive(Debug)]
pub(super) struct TunnelConnection {
    connection: TcpConnection<OuterPacket>,
    /// Records that the connection has not taken yet.
    pending: VecDeque<OuterPacket>,
    pending_bytes: u64,
    writer: StreamWriter,
}

/// Beyond this, reports, which no room holds back, are dropped.
const MAX_PENDING_BYTES: u64 = 64 << 10;

impl TunnelConnection {
    /// One that takes records until so many bytes are unsent; as many as it delivers in 2 ms, if none are given.
    pub(super) fn new(connection: TcpConnection<OuterPacket>, unsent_bytes: Option<u32>) -> Self {
        TunnelConnection {
            connection,
            pending: VecDeque::new(),
            pending_bytes: 0,
            writer: StreamWriter::new(unsent_bytes, Time::ZERO),
        }
    }

    /// Does what is due.
    pub(super) fn on_time(&mut self, now: Time) {
        self.connection.on_time(now);
        let is_full = self.writer.is_full() || !self.pending.is_empty();
        if is_full && self.connection.unsent_bytes() < u64::from(self.writer.max_unsent_bytes()) {
            self.writer.set_writable(now);
        }
    }

    /// How it does now; none where that was said a short time ago.
    pub(super) fn sample_delivery(&mut self, now: Time) -> Option<StreamDelivery> {
        if !self.writer.is_due(now) {
            return None;
        }
        Some(self.writer.sample_stream(&self.connection.sender_state(), self.pending_bytes, now))
    }

    /// Adds a datagram to what is to be sent.
    pub(super) fn push(&mut self, wire: OuterPacket) {
        let bytes = u64::from(wire.bytes);
        let most = MAX_PENDING_BYTES.max(self.writer.max_unsent_bytes().into());
        if self.pending.is_empty() || self.pending_bytes + bytes <= most {
            self.pending_bytes += bytes;
            self.pending.push_back(wire);
        }
    }

    /// What leaves now, if anything.
    pub(super) fn poll_send(&mut self, now: Time) -> Option<TcpSegment<OuterPacket>> {
        while self.connection.unsent_bytes() < u64::from(self.writer.max_unsent_bytes()) {
            let Some(wire) = self.pending.pop_front() else { break };
            let bytes = wire.bytes;
            self.pending_bytes -= u64::from(bytes);
            self.writer.record_written(bytes.into());
            self.connection.write(wire, bytes);
        }
        self.connection.poll_send(now)
    }

    /// A segment of its far end has arrived; appends the datagrams that it completes.
    pub(super) fn receive(&mut self, segment: TcpSegment<OuterPacket>, now: Time, out: &mut Vec<OuterPacket>) {
        self.connection.receive(segment, now, out);
    }

    /// When it has something to do; while something waits for it, also when to look at it again.
    pub(super) fn next_time(&self, is_awaited: bool) -> Option<Time> {
        self.connection.next_time().into_iter().chain(self.writer.sample_at().filter(|_| is_awaited)).min()
    }
}

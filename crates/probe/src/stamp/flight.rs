//! The probes of one measurement on their way, and what is known of each.

use super::config::StampConfig;
use crate::cancel::Limit;
use estimate::delay::OneWaySample;
use net::datagram::{self, Datagram};
use net::{clock, readiness, stamp};
use std::io;
use std::net::UdpSocket;
use transport::within;
use units::{Direction, Span, Time};
use wire::stamp::{ErrorEstimate, Probe, Reply, SIZE};

/// This many refusals in a row, and nobody listens there.
const REFUSALS: u32 = 5;

/// What became of a probe; stamps of the far end are by its clock.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fate {
    sent: Stamp,
    returned: Stamp,
    pub(super) reply: Option<Reply>,
    /// The reply's TTL as it arrived.
    pub(super) ttl: Option<u8>,
}

/// By the kernel, and by the program's own clock.
#[derive(Debug, Clone, Copy, Default)]
struct Stamp {
    kernel: Option<Time>,
    user: Option<Time>,
}

/// A reply as it came, copies included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Return {
    /// The probe that it answers.
    pub(super) probe: u32,
    /// The reflector's own number of it.
    pub(super) answer: u32,
    /// From the sending of the probe on.
    pub(super) took: Span,
}

impl Return {
    /// Replies to one probe, on average, that are remembered; the first of each is in any case.
    pub(super) const MOST_COPIES: u32 = 4;
}

/// All probes.
#[derive(Debug)]
pub(super) struct Flight {
    socket: UdpSocket,
    /// What the probes say of this host's clock.
    clock: ErrorEstimate,
    fates: Vec<Fate>,
    /// In the order in which they came.
    returns: Vec<Return>,
    /// Failed sends make the kernel's count unsure.
    keys_sure: bool,
    missing: u32,
    refusals: u32,
}

impl Flight {
    /// Over a connected socket; the probes say that about this host's clock.
    pub(super) fn new(socket: UdpSocket, count: u32, clock: ErrorEstimate) -> Self {
        let keys_sure = stamp::enable_transmit(&socket, false).is_ok();
        let fates = vec![Fate::default(); count as usize];
        Flight { socket, clock, fates, returns: Vec::new(), keys_sure, missing: count, refusals: 0 }
    }

    /// Sends all probes, and waits for the replies: for the last ones twice the deadline, so that late ones are told
    /// from lost ones.
    pub(super) fn fly(&mut self, config: &StampConfig, limit: &Limit) -> io::Result<()> {
        let mut payload = vec![0; config.size.max(SIZE)];
        let start = clock::monotonic();
        for (number, turn) in (0..config.count).zip(0i64..) {
            let due = start + Span::from_nanos(config.interval.as_nanos().saturating_mul(turn));
            while clock::monotonic() < due {
                if limit.check().is_err() {
                    return Ok(());
                }
                self.await_more(due.min(within(Limit::LOOK)))?;
            }
            self.send(number, &mut payload)?;
        }
        let end = clock::monotonic() + config.late_after * 2;
        while self.missing > 0 && clock::monotonic() < end && limit.check().is_ok() {
            self.await_more(end.min(within(Limit::LOOK)))?;
        }
        self.collect_stamps()
    }

    /// What became of each probe.
    pub(super) fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// All replies in the order in which they came.
    pub(super) fn returns(&self) -> &[Return] {
        &self.returns
    }

    /// Whether the kernel stamped most probes at both moments here; all stamps are of one kind then.
    pub(super) fn has_kernel_stamps(&self) -> bool {
        let back = self.fates.iter().filter(|fate| fate.reply.is_some());
        let stamped = back.clone().filter(|fate| fate.sent.kernel.is_some() && fate.returned.kernel.is_some()).count();
        stamped > 0 && stamped * 2 >= back.count()
    }

    /// Both crossings of each probe that came back, in order; with the round trip less what the reflector took.
    pub(super) fn crossings(&self) -> (Vec<OneWaySample>, Vec<Span>) {
        let kernel = self.has_kernel_stamps();
        let choose = |stamp: Stamp| if kernel { stamp.kernel } else { stamp.user };
        let (mut crossings, mut round_trips) = (Vec::new(), Vec::new());
        for fate in &self.fates {
            let (Some(sent), Some(returned), Some(reply)) = (choose(fate.sent), choose(fate.returned), fate.reply)
            else {
                continue;
            };
            crossings.push(OneWaySample { direction: Direction::Up, sent, received: reply.received });
            crossings.push(OneWaySample { direction: Direction::Down, sent: reply.reflected, received: returned });
            // A reflector can't have taken longer than all of it: then its stamps are no times.
            let (whole, reflecting) = (returned - sent, reply.reflected - reply.received);
            round_trips.push(if (Span::ZERO..=whole).contains(&reflecting) { whole - reflecting } else { whole });
        }
        (crossings, round_trips)
    }

    fn send(&mut self, number: u32, payload: &mut [u8]) -> io::Result<()> {
        let now = clock::realtime();
        if let Some(packet) = payload.first_chunk_mut() {
            Probe { sequence: number, sent: now, clock: self.clock, session: 0 }.write(packet);
        }
        match self.socket.send(payload) {
            Ok(_) => self.fates[number as usize].sent.user = Some(now),
            Err(error) => {
                self.keys_sure = false;
                self.survive(error)?;
            }
        }
        Ok(())
    }

    fn await_more(&mut self, deadline: Time) -> io::Result<()> {
        if readiness::readable(&self.socket, deadline)? {
            self.collect_stamps()?;
            self.collect_replies()?;
        }
        Ok(())
    }

    fn collect_stamps(&mut self) -> io::Result<()> {
        while let Some(stamp) = stamp::next_transmit_stamp(&self.socket)? {
            if self.keys_sure
                && let Some(fate) = self.fates.get_mut(stamp.key as usize)
            {
                fate.sent.kernel.get_or_insert(stamp.at);
            }
        }
        Ok(())
    }

    fn collect_replies(&mut self) -> io::Result<()> {
        let mut buffer = [0; 2048];
        // A peer that sends without end must not keep us from sending.
        for _ in 0..64 {
            let datagram = match datagram::receive(&self.socket, &mut buffer) {
                Ok(datagram) => datagram,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.survive(error),
            };
            let user = clock::realtime();
            if let Ok(reply) = Reply::read(&buffer[..datagram.len]) {
                self.take(reply, user, &datagram);
            }
        }
        Ok(())
    }

    fn take(&mut self, reply: Reply, user: Time, datagram: &Datagram) {
        let most = self.fates.len() * Return::MOST_COPIES as usize;
        let Some(fate) = self.fates.get_mut(reply.probe_sequence as usize) else { return };
        let Some(sent) = fate.sent.user else { return };
        // Who did not see the probe can't repeat its stamp, nor does an answer to an earlier measurement.
        if reply.probe_stamp[..8] != self.clock.format.write(sent) {
            return;
        }
        // Copies without end must not pass for the loss of what comes behind them.
        if fate.reply.is_some() && self.returns.len() >= most {
            return;
        }
        self.returns.push(Return { probe: reply.probe_sequence, answer: reply.sequence, took: user - sent });
        if fate.reply.is_none() {
            let returned = Stamp { kernel: datagram.stamp, user: Some(user) };
            *fate = Fate { reply: Some(reply), returned, ttl: datagram.ttl, ..*fate };
            self.missing -= 1;
        }
    }

    /// What a router or the peer's host says of one probe need not be true of the next, unless it says so of all.
    fn survive(&mut self, error: io::Error) -> io::Result<()> {
        self.refusals += 1;
        let is_hopeless = self.returns.is_empty() && self.refusals >= REFUSALS;
        if is_hopeless { Err(error) } else { Ok(()) }
    }
}

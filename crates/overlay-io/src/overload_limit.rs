use crate::receive_turn::Sender;
use kumade_daemon::TimeBudget;
use kumade_units::{Span, Time};
use std::io;

/// Whether most of what comes to a socket is lost since its buffer is full. Ends that send by a congestion control slow down before; who
/// does not is to have a small part of the thread's time, not an equal one.
#[derive(Debug, Default)]
pub(crate) struct OverloadWatch {
    /// What the kernel has dropped since the socket was opened, at the last look.
    dropped: u32,
    /// Messages since the last look.
    received: u32,
    overloaded_looks: u32,
}

/// The time of a thread that those have who send too much.
#[derive(Debug)]
pub(crate) struct OverloadTime {
    peers: TimeBudget,
    others: TimeBudget,
}

/// At so many looks in a row more was dropped than received: half a second is some round trips, within which a congestion control slows
/// down.
const MIN_OVERLOADED_LOOKS: u32 = 5;
/// With fewer messages since the last look, the buffer of a socket, which has room for more, was not full.
const MIN_MESSAGES: u32 = 32;
/// Peers that go on sending though most of it is lost, or brings hosts nothing, have a tenth of the thread's time together, as strangers have.
const PEERS_DIVISOR: u32 = 10;
/// What comes of strangers, and of all peers that send little, has a quarter.
const OTHERS_DIVISOR: u32 = 4;
/// Of the thread's time at once: some hundred datagrams.
const BURST: Span = Span::from_micros(200);

impl OverloadWatch {
    /// Between two [looks](Self::update).
    pub(crate) const LOOK_INTERVAL: Span = Span::from_millis(100);

    /// So many messages were received.
    pub(crate) fn record(&mut self, messages: usize) {
        self.received = self.received.saturating_add(messages as u32);
    }

    /// Looks at what the kernel has `dropped` since the socket was opened, unless hardly anything has come; what it does not tell is
    /// none. Returns whether the socket is overloaded now and was not before, or the other way round.
    pub(crate) fn update(&mut self, dropped: impl FnOnce() -> io::Result<u32>) -> bool {
        if self.overloaded_looks == 0 && self.received < MIN_MESSAGES {
            return false;
        }
        let dropped = dropped().unwrap_or(self.dropped);
        let is_overloaded = dropped.wrapping_sub(self.dropped) > self.received;
        let before = self.is_overloaded();
        self.overloaded_looks = if is_overloaded { self.overloaded_looks.saturating_add(1) } else { 0 };
        (self.dropped, self.received) = (dropped, 0);
        before != self.is_overloaded()
    }

    pub(crate) fn is_overloaded(&self) -> bool {
        self.overloaded_looks >= MIN_OVERLOADED_LOOKS
    }
}

impl OverloadTime {
    pub(crate) fn new() -> Self {
        let [peers, others] = [PEERS_DIVISOR, OTHERS_DIVISOR].map(|divisor| TimeBudget::new(divisor, BURST));
        OverloadTime { peers, others }
    }

    /// From when on what such a sender sends may be read.
    pub(crate) fn available_at(&self, sender: Sender) -> Time {
        if sender.peer().is_some() { self.peers.available_at() } else { self.others.available_at() }
    }

    /// It took so long to read it, with all that came of it.
    pub(crate) fn charge(&mut self, sender: Sender, time: Span, now: Time) {
        if sender.peer().is_some() { &mut self.peers } else { &mut self.others }.charge(time, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_loses_most_of_what_comes_for_half_a_second_is_overloaded_until_it_loses_less() {
        let (mut watch, mut dropped) = (OverloadWatch::default(), 0);
        for look in 0..20 {
            watch.record(100);
            dropped += if look < 10 { 100 } else { 101 };
            assert_eq!(watch.update(|| Ok(dropped)), look == 14, "as much is lost as is received, then more: {look}");
            assert_eq!(watch.is_overloaded(), look >= 14);
        }
        assert!(watch.update(|| Ok(dropped)) && !watch.is_overloaded());
    }

    #[test]
    fn overloaded_sockets_have_their_part_of_the_time() {
        let (start, read) = (Time::ZERO + Span::from_secs(9), Span::from_micros(100));
        let (mut time, mut now, mut used) = (OverloadTime::new(), start, [Span::ZERO; 2]);
        while now < start + Span::from_secs(1) {
            for (sender, used) in [Sender::Peer(3), Sender::Shared(1)].into_iter().zip(&mut used) {
                if time.available_at(sender) <= now {
                    time.charge(sender, read, now);
                    *used += read;
                }
            }
            now += read;
        }
        let share = |used: Span| used.as_secs_f64();
        assert!((share(used[0]) - 0.1).abs() < 0.002 && (share(used[1]) - 0.25).abs() < 0.002, "{used:?}");
    }
}

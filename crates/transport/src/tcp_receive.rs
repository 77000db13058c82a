//! Receiving trains over TCP: the assignment of bytes and time stamps to packets.

use crate::error::Error;
use crate::limits::READ_INTERVAL;
use crate::packets::{ReceivedPackets, SentPackets};
use crate::parts::ReceivedTrain;
use crate::tcp::{Slot, TcpProbes};
use kumade_net::readiness::Readiness;
use kumade_net::{clock, stamp};
use kumade_probe_train::Train;
use kumade_units::Time;
use std::io::{self, ErrorKind};

/// The part of a train that one connection is to deliver.
struct Expected {
    /// Remaining packets, the next one last: index and payload bytes.
    packets: Vec<(u32, u32)>,
    /// Bytes of the next packet that have arrived.
    begun: u32,
    /// The last time stamp read, and the packet to which it was assigned.
    newest: Option<(Time, u32)>,
}

impl TcpProbes {
    pub(crate) fn collect_train(&mut self, train: &Train, deadline: Time) -> Result<ReceivedTrain, Error> {
        let mut expected = self.expect(train);
        let mut received_packets = ReceivedPackets::new(train.packet_count());
        let result = self.collect_expected(&mut expected, &mut received_packets, deadline, train);
        for (slot, expected) in self.slots.iter_mut().zip(&expected) {
            slot.unread += expected.bytes();
        }
        result.map_err(Error::io("wait for probes from", self.peer))?;
        // A complete train is valid whatever happens afterwards.
        if !received_packets.is_complete() && self.control.is_closed() {
            return Err(Error::Aborted(self.peer));
        }
        Ok(received_packets.finish())
    }

    /// Divides the train's packets among the connections.
    fn expect(&self, train: &Train) -> Vec<Expected> {
        let nothing = || Expected { packets: Vec::new(), begun: 0, newest: None };
        let mut expected: Vec<_> = self.slots.iter().map(|_| nothing()).collect();
        for (planned, index) in train.packets().zip(0u32..) {
            let number = index as usize % self.slots.len();
            if self.slots[number].stream.is_some() {
                expected[number].packets.push((index, self.slots[number].payload(planned.size)));
            }
        }
        expected.iter_mut().for_each(|e| e.packets.reverse());
        expected
    }

    fn collect_expected(
        &mut self,
        expected: &mut [Expected],
        received_packets: &mut ReceivedPackets,
        deadline: Time,
        train: &Train,
    ) -> io::Result<()> {
        let readiness = Readiness::new()?;
        let mut open = 0;
        for ((number, slot), expected) in (0u32..).zip(&self.slots).zip(expected.iter()) {
            if let (Some(stream), false) = (&slot.stream, expected.packets.is_empty()) {
                readiness.add_reader(stream, number)?;
                open += 1;
            }
        }
        // With one packet per connection, the whole train can wait in the kernel's buffers.
        let one_each = train.packet_count() as usize <= self.slots.len();
        let mut sleep = train.duration();
        let mut events = Vec::new();
        let mut looked = clock::realtime();
        while open > 0 && clock::monotonic() < deadline && !self.control.is_closed() {
            readiness.wait(&mut events, self.control.until(deadline))?;
            // What is not among the events had nothing to read, unless there were too many.
            let absent = looked;
            looked = if (1..Readiness::MOST_EVENTS).contains(&events.len()) { clock::realtime() } else { looked };
            for event in &events {
                let number = event.number as usize;
                let (slot, expected) = (&mut self.slots[number], &mut expected[number]);
                if event.error {
                    // Unread time stamps of earlier sends would end every wait at once.
                    while slot.collect(&mut SentPackets::new(0)) {}
                }
                if read(slot, expected, received_packets, absent, deadline) == Reading::Over {
                    // A peer that sends more than planned must not cause a busy loop.
                    if let Some(stream) = &slot.stream {
                        readiness.remove(stream)?;
                    }
                    open -= 1;
                }
            }
            if one_each && open > 0 && !events.is_empty() {
                self.control.sleep_until((clock::monotonic() + sleep).min(deadline));
                sleep = READ_INTERVAL;
            }
        }
        Ok(())
    }
}

impl Expected {
    fn bytes(&self) -> u64 {
        let whole: u64 = self.packets.iter().map(|(_, payload)| u64::from(*payload)).sum();
        whole - u64::from(self.begun)
    }
}

#[derive(PartialEq, Eq)]
enum Reading {
    /// More data is expected.
    Open,
    /// Everything has arrived, or the connection is closed.
    Over,
}

/// Reads available data, one packet at a time, so that each has its own time stamp unless the kernel merged them. None of it was there at
/// `absent`.
fn read(
    slot: &mut Slot,
    expected: &mut Expected,
    received_packets: &mut ReceivedPackets,
    absent: Time,
    deadline: Time,
) -> Reading {
    let mut buffer = [0; 2048];
    loop {
        let Some(&(index, payload)) = expected.packets.last() else { return Reading::Over };
        let Some(stream) = &slot.stream else { return Reading::Over };
        let wanted = if slot.unread > 0 { slot.unread } else { u64::from(payload - expected.begun) };
        let part = wanted.min(buffer.len() as u64) as usize;
        let received = match stamp::receive(stream, &mut buffer[..part]) {
            Ok(received) if received.len > 0 => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Reading::Open,
            Ok(_) | Err(_) => {
                slot.close();
                expected.packets.clear();
                expected.begun = 0;
                return Reading::Over;
            }
        };
        if slot.unread > 0 {
            slot.unread -= received.len as u64;
            if clock::monotonic() > deadline {
                return Reading::Open;
            }
            continue;
        }
        expected.begun += received.len as u32;
        if expected.begun == payload {
            expected.packets.pop();
            expected.begun = 0;
            expected.arrived(index, received.stamp, absent, received_packets);
        }
    }
}

impl Expected {
    /// Records a complete packet. Merged packets share the last one's time stamp, which is no earlier one's.
    fn arrived(&mut self, index: u32, stamp: Option<Time>, absent: Time, received_packets: &mut ReceivedPackets) {
        let user = clock::realtime();
        if let (Some(at), Some((newest, earlier))) = (stamp, self.newest)
            && at == newest
        {
            received_packets.joined(earlier, absent, user);
        }
        self.newest = stamp.map(|at| (at, index));
        received_packets.add(index, stamp, user);
    }
}

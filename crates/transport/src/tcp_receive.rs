//! Receiving trains over TCP: the assignment of bytes and time stamps to packets.

use crate::error::Error;
use crate::limits::READ_INTERVAL;
use crate::one_sided_records::ReceivedTrain;
use crate::packets::{ReceivedPackets, SentPackets};
use crate::tcp::{ProbeConnection, TcpProbes};
use kumade_net::clock;
use kumade_net::platform::AsFd;
use kumade_net::platform::readiness::SocketSet;
use kumade_net::platform::stamp;
use kumade_probe_train::Train;
use kumade_units::Time;
use std::io::{self, ErrorKind};

/// The part of a train that one connection is to deliver.
struct ExpectedPackets {
    /// Remaining packets, the next one last: index and payload bytes.
    packets: Vec<(u32, u32)>,
    /// Bytes of the next packet that have arrived.
    received_bytes: u32,
    /// The last time stamp read, and the packet to which it was assigned.
    last_stamp: Option<(Time, u32)>,
}

impl TcpProbes {
    pub(crate) fn collect_train(&mut self, train: &Train, deadline: Time) -> Result<ReceivedTrain, Error> {
        let mut expected = self.assign_packets(train);
        let mut received_packets = ReceivedPackets::new(train.packet_count());
        let result = self.collect_expected(&mut expected, &mut received_packets, deadline, train);
        for (slot, expected) in self.probe_connections.iter_mut().zip(&expected) {
            slot.unread_bytes += expected.remaining_bytes();
        }
        result.map_err(Error::io("wait for probes from", self.peer))?;
        // A complete train is valid whatever happens afterwards.
        if !received_packets.is_complete() && self.control.is_closed() {
            return Err(Error::Aborted(self.peer));
        }
        Ok(received_packets.finish())
    }

    /// Divides the train's packets among the connections.
    fn assign_packets(&self, train: &Train) -> Vec<ExpectedPackets> {
        let nothing = || ExpectedPackets { packets: Vec::new(), received_bytes: 0, last_stamp: None };
        let mut expected: Vec<_> = self.probe_connections.iter().map(|_| nothing()).collect();
        for (planned, index) in train.packets().zip(0u32..) {
            let number = index as usize % self.probe_connections.len();
            if self.probe_connections[number].stream.is_some() {
                expected[number].packets.push((index, self.probe_connections[number].payload_bytes(planned.size)));
            }
        }
        expected.iter_mut().for_each(|e| e.packets.reverse());
        expected
    }

    fn collect_expected(
        &mut self,
        expected: &mut [ExpectedPackets],
        received_packets: &mut ReceivedPackets,
        deadline: Time,
        train: &Train,
    ) -> io::Result<()> {
        let readiness = SocketSet::new()?;
        let mut open = 0;
        for ((number, slot), expected) in (0u32..).zip(&self.probe_connections).zip(expected.iter()) {
            if let (Some(stream), false) = (&slot.stream, expected.packets.is_empty()) {
                readiness.add_reader(stream, number)?;
                open += 1;
            }
        }
        // With one packet per connection, the whole train can wait in the kernel's buffers.
        let one_each = !stamp::IS_TIME_OF_READING && train.packet_count() as usize <= self.probe_connections.len();
        let mut sleep = train.duration();
        let mut events = Vec::new();
        let mut looked = clock::realtime();
        while open > 0 && clock::monotonic() < deadline && !self.control.is_closed() {
            let socket = |number: u32| {
                let awaited = expected.get(number as usize).filter(|expected| !expected.packets.is_empty());
                Some(self.probe_connections.get(awaited.map(|_| number as usize)?)?.stream.as_ref()?.as_fd())
            };
            readiness.wait_open(socket, &mut events, self.control.next_look(deadline))?;
            // What is not among the events had nothing to read, unless there were too many, or packets are looked for one by one.
            let absent = looked;
            let are_all_told = !stamp::IS_TIME_OF_READING && (1..SocketSet::MAX_EVENTS).contains(&events.len());
            looked = if are_all_told { clock::realtime() } else { looked };
            for event in &events {
                let number = event.number as usize;
                let (slot, expected) = (&mut self.probe_connections[number], &mut expected[number]);
                if event.has_error {
                    // Unread time stamps of earlier sends would end every wait at once.
                    while slot.collect_stamp(&mut SentPackets::new(0)) {}
                }
                let state = read_packets(slot, expected, received_packets, absent, deadline);
                if state != ReadState::AwaitingData {
                    // A peer that sends more than planned must not cause a busy loop.
                    if let Some(stream) = &slot.stream {
                        readiness.remove(stream)?;
                    }
                    open -= 1;
                }
                if state == ReadState::Closed {
                    slot.close();
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

impl ExpectedPackets {
    fn remaining_bytes(&self) -> u64 {
        let whole: u64 = self.packets.iter().map(|(_, payload)| u64::from(*payload)).sum();
        whole - u64::from(self.received_bytes)
    }
}

#[derive(PartialEq, Eq)]
enum ReadState {
    /// More data is expected.
    AwaitingData,
    /// Everything has arrived.
    Finished,
    /// The connection is closed.
    Closed,
}

/// Reads available data, one packet at a time, so that each has its own time stamp unless the kernel merged them. None of it was there at
/// `absent`.
fn read_packets(
    slot: &mut ProbeConnection,
    expected: &mut ExpectedPackets,
    received_packets: &mut ReceivedPackets,
    absent: Time,
    deadline: Time,
) -> ReadState {
    let mut buffer = [0; 2048];
    loop {
        let Some(&(index, payload)) = expected.packets.last() else { return ReadState::Finished };
        let Some(stream) = &slot.stream else { return ReadState::Finished };
        let wanted =
            if slot.unread_bytes > 0 { slot.unread_bytes } else { u64::from(payload - expected.received_bytes) };
        let part = wanted.min(buffer.len() as u64) as usize;
        let received = match stamp::receive(stream, &mut buffer[..part]) {
            Ok(received) if received.len > 0 => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadState::AwaitingData,
            Ok(_) | Err(_) => {
                expected.packets.clear();
                expected.received_bytes = 0;
                return ReadState::Closed;
            }
        };
        if slot.unread_bytes > 0 {
            slot.unread_bytes -= received.len as u64;
            if clock::monotonic() > deadline {
                return ReadState::AwaitingData;
            }
            continue;
        }
        expected.received_bytes += received.len as u32;
        if expected.received_bytes == payload {
            expected.packets.pop();
            expected.received_bytes = 0;
            expected.record_arrival(index, received.stamp, absent, received_packets);
            // The next one here comes after one on each of the other connections, which may be there as well.
            if stamp::IS_TIME_OF_READING && !expected.packets.is_empty() {
                return ReadState::AwaitingData;
            }
        }
    }
}

impl ExpectedPackets {
    /// Records a complete packet. Merged packets share the last one's time stamp, which is no earlier one's.
    fn record_arrival(
        &mut self,
        index: u32,
        stamp: Option<Time>,
        absent: Time,
        received_packets: &mut ReceivedPackets,
    ) {
        let user = clock::realtime();
        if let (Some(at), Some((newest, earlier))) = (stamp, self.last_stamp)
            && at == newest
        {
            received_packets.restamp_coalesced(earlier, absent, user);
        }
        self.last_stamp = stamp.map(|at| (at, index));
        received_packets.record_packet(index, stamp, user);
    }
}

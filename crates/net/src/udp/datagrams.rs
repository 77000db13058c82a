use crate::control_messages::ArrivalMetadata;
use crate::messages::MessageBatch;
use crate::system_facts::DatagramArrival;
use kumade_packet::DsField;
use std::fmt;
use std::io;
use std::net::UdpSocket;

/// Datagrams that one system call receives.
const MAX_DATAGRAMS: usize = 64;

/// Receives the first bytes of datagrams with what the kernel says of each, many with one system call: a call for each takes longer than a
/// full packet does at 10 Gbit/s.
pub struct DatagramReceiver {
    messages: Box<MessageBatch<MAX_DATAGRAMS>>,
    memory: Box<[u8]>,
    max_datagram_bytes: usize,
}

impl DatagramReceiver {
    /// Receives up to so many bytes of each datagram, at least one; the rest is cut off.
    pub fn new(longest: usize) -> Self {
        let longest = longest.max(1);
        DatagramReceiver {
            messages: Box::default(),
            memory: vec![0; MAX_DATAGRAMS * longest].into(),
            max_datagram_bytes: longest,
        }
    }

    /// Takes what waits, as far as one system call does, up to 64, and gives `read` the bytes of each datagram, and what the kernel says
    /// of it.
    ///
    /// # Errors
    /// `WouldBlock` where nothing waits, else what the socket reports.
    pub fn receive(&mut self, socket: &UdpSocket, mut read: impl FnMut(&[u8], DatagramArrival)) -> io::Result<()> {
        let count = self.messages.receive(socket, &mut self.memory, self.max_datagram_bytes)?;
        for (index, memory) in self.memory.chunks(self.max_datagram_bytes).enumerate().take(count) {
            let ArrivalMetadata { stamp, ds_field, ttl, .. } = self.messages.metadata(index);
            let arrival = DatagramArrival { stamp, ds_field: ds_field.map(DsField::octet), hop_limit: ttl };
            read(&memory[..self.messages.len(index)], arrival);
        }
        Ok(())
    }
}

impl fmt::Debug for DatagramReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramReceiver").field("longest", &self.max_datagram_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, readiness, stamp};
    use kumade_units::Span;

    /// More than one system call takes, and longer than the memory for each.
    #[test]
    fn the_first_bytes_of_each_datagram_come_in_order_with_its_stamp() {
        kumade_netns_testbed::keep_receive_stamps_on();
        let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        stamp::enable_receive(&receiver).unwrap();
        let began = clock::realtime();
        for number in 0..100 {
            sender.send(&[number; 9][..if number == 7 { 2 } else { 9 }]).unwrap();
        }
        let mut datagrams = DatagramReceiver::new(4);
        let mut found = Vec::new();
        while found.len() < 100 {
            assert!(readiness::wait_readable(&receiver, clock::monotonic() + Span::from_secs(60)).unwrap());
            datagrams.receive(&receiver, |bytes, arrival| found.push((bytes.to_vec(), arrival.stamp))).unwrap();
        }
        let bytes = |number| vec![number; if number == 7 { 2 } else { 4 }];
        assert!(found.iter().map(|(bytes, _)| bytes.clone()).eq((0..100).map(bytes)));
        let stamps: Vec<_> = found.iter().map(|(_, stamp)| stamp.unwrap()).collect();
        assert!(stamps.is_sorted() && stamps.iter().all(|at| *at > began - Span::from_secs(1)));
        assert_eq!(datagrams.receive(&receiver, |_, _| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

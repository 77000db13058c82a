use crate::messages::MessageBatch;
use kumade_units::Time;
use std::fmt;
use std::io;
use std::net::UdpSocket;

/// Datagrams that one system call receives.
const MAX_DATAGRAMS: usize = 64;

/// Receives the first bytes of datagrams with the kernel's stamps ([`enable_receive`](crate::stamp::enable_receive)), many with one
/// system call: a call for each takes longer than a full packet does at 10 Gbit/s.
pub struct StampedReceiver {
    messages: Box<MessageBatch<MAX_DATAGRAMS>>,
    memory: Box<[u8]>,
    max_datagram_bytes: usize,
}

impl StampedReceiver {
    /// Receives up to so many bytes of each datagram, at least one; the rest is cut off.
    pub fn new(longest: usize) -> Self {
        let longest = longest.max(1);
        StampedReceiver {
            messages: Box::default(),
            memory: vec![0; MAX_DATAGRAMS * longest].into(),
            max_datagram_bytes: longest,
        }
    }

    /// Takes what waits, as far as one system call does, up to 64, and gives `read` the bytes of each datagram, and when it came, where the
    /// kernel has said so credibly.
    ///
    /// # Errors
    /// `WouldBlock` where nothing waits, else what the socket reports.
    pub fn receive(&mut self, socket: &UdpSocket, mut read: impl FnMut(&[u8], Option<Time>)) -> io::Result<()> {
        let count = self.messages.receive(socket, &mut self.memory, self.max_datagram_bytes)?;
        for (index, memory) in self.memory.chunks(self.max_datagram_bytes).enumerate().take(count) {
            read(&memory[..self.messages.len(index)], self.messages.metadata(index).stamp);
        }
        Ok(())
    }
}

impl fmt::Debug for StampedReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampedReceiver").field("longest", &self.max_datagram_bytes).finish_non_exhaustive()
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
        let mut datagrams = StampedReceiver::new(4);
        let mut found = Vec::new();
        while found.len() < 100 {
            assert!(readiness::wait_readable(&receiver, clock::monotonic() + Span::from_secs(60)).unwrap());
            datagrams.receive(&receiver, |bytes, stamp| found.push((bytes.to_vec(), stamp))).unwrap();
        }
        let bytes = |number| vec![number; if number == 7 { 2 } else { 4 }];
        assert!(found.iter().map(|(bytes, _)| bytes.clone()).eq((0..100).map(bytes)));
        let stamps: Vec<_> = found.iter().map(|(_, stamp)| stamp.unwrap()).collect();
        assert!(stamps.is_sorted() && stamps.iter().all(|at| *at > began - Span::from_secs(1)));
        assert_eq!(datagrams.receive(&receiver, |_, _| ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

use super::batch::BatchSocket;
use crate::control_messages::ArrivalMetadata;
use crate::messages::MessageBatch;
use kumade_packet::Ecn;
use kumade_units::Time;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::slice::ChunksMut;

/// Messages that one system call receives.
const MAX_MESSAGES: usize = 16;
/// The kernel merges datagrams up to this length.
const MAX_MESSAGE_BYTES: usize = 1 << 16;

/// Receives datagrams of a [`BatchSocket`], many at a time. With several receivers of one socket, the datagrams of one
/// peer are spread over them.
#[derive(Debug)]
pub struct BatchReceiver {
    socket: BatchSocket,
    memory: Box<[u8]>,
}

/// Datagrams of one sender that came one after the other, and that the kernel has merged.
#[derive(Debug)]
pub struct ReceivedDatagrams<'a> {
    /// Who sent them.
    pub source: SocketAddr,
    /// Their ECN field, the same in each.
    pub ecn: Ecn,
    /// When the first of them came, where the kernel has said so credibly.
    pub stamp: Option<Time>,
    bytes: &'a mut [u8],
    segment_bytes: usize,
}

impl<'a> ReceivedDatagrams<'a> {
    /// The datagrams. Empty ones are left out.
    pub fn datagrams(self) -> ChunksMut<'a, u8> {
        self.bytes.chunks_mut(self.segment_bytes)
    }
}

impl BatchReceiver {
    /// How many times [`receive`](Self::receive) calls its argument at most.
    pub const MAX_MESSAGES: usize = MAX_MESSAGES;

    /// Has 1 MB of memory of its own.
    pub fn new(socket: &BatchSocket) -> Self {
        BatchReceiver { socket: socket.clone(), memory: vec![0; MAX_MESSAGES * MAX_MESSAGE_BYTES].into() }
    }

    /// Takes what waits, as far as one system call does, and gives it to `read`. Returns how many times it was called:
    /// zero where nothing waits, 16 where more may.
    ///
    /// # Errors
    /// What the socket reports.
    pub fn receive(&mut self, read: impl FnMut(ReceivedDatagrams<'_>)) -> io::Result<usize> {
        let socket = self.socket.clone();
        self.receive_from(&socket, Self::MAX_MESSAGES, read)
    }

    /// The same of another socket, no more than so many times.
    ///
    /// # Errors
    /// What the socket reports.
    pub fn receive_from(
        &mut self,
        socket: &BatchSocket,
        max_messages: usize,
        mut read: impl FnMut(ReceivedDatagrams<'_>),
    ) -> io::Result<usize> {
        let mut messages = MessageBatch::<MAX_MESSAGES>::default();
        let count = match messages.receive_up_to(max_messages, socket, &mut self.memory, MAX_MESSAGE_BYTES) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            outcome => outcome?,
        };
        for (index, memory) in self.memory.chunks_mut(MAX_MESSAGE_BYTES).enumerate().take(count) {
            let Some(from) = messages.sender(index) else { continue };
            let ArrivalMetadata { ds_field, segment_bytes, stamp, .. } = messages.metadata(index);
            let ecn = ds_field.unwrap_or_default().ecn();
            let bytes = &mut memory[..messages.len(index)];
            let segment_bytes = segment_bytes.unwrap_or(bytes.len()).max(1);
            read(ReceivedDatagrams { source: from, ecn, stamp, bytes, segment_bytes });
        }
        Ok(count)
    }
}

impl AsFd for BatchReceiver {
    /// Readable whenever a datagram waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

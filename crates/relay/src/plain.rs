use kumade_net::tcp;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A connection that is carried, as its program or its target sees it.
#[derive(Debug)]
pub(crate) struct PlainStream {
    pub(crate) stream: TcpStream,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// What came for it and the kernel has not taken yet: less than a message.
    pending: Vec<u8>,
    written_bytes: usize,
}

/// What waits in the kernel's buffer behind the congestion window: a few milliseconds of a fast path.
pub(crate) const MAX_UNSENT_BYTES: u32 = 128 << 10;

/// A connection whose other end is gone without a word is noticed after half a minute more.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

impl PlainStream {
    /// It ends with an RST unless it is [closed](Self::into_closing).
    ///
    /// # Errors
    /// The connection is no more.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        set_socket_options(&stream)?;
        tcp::limit_unsent(&stream, MAX_UNSENT_BYTES)?;
        reset_when_dropped(&stream);
        Ok(PlainStream { stream, is_readable: true, is_writable: true, pending: Vec::new(), written_bytes: 0 })
    }

    /// Writes what is pending. Returns whether nothing is any more.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.written_bytes < self.pending.len() {
            if !self.is_writable {
                return Ok(false);
            }
            let count = write_available(&self.stream, &self.pending[self.written_bytes..], &mut self.is_writable)?;
            self.written_bytes += count;
        }
        (self.pending, self.written_bytes) = (Vec::new(), 0);
        Ok(true)
    }

    /// Writes; what the kernel does not take is kept. To be called when nothing is pending. Returns whether nothing is.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let mut written = 0;
        while self.is_writable && written < bytes.len() {
            written += write_available(&self.stream, &bytes[written..], &mut self.is_writable)?;
        }
        self.pending.extend_from_slice(&bytes[written..]);
        Ok(self.pending.is_empty())
    }

    /// Ends what is sent to it.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self.stream.shutdown(Shutdown::Write) {
            // It has gone meanwhile, which reading from it tells.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            outcome => outcome,
        }
    }

    /// Ends it as one that is complete, once the result is dropped.
    pub(crate) fn into_closing(self) -> TcpStream {
        let _ = SockRef::from(&self.stream).set_linger(None);
        self.stream
    }

    /// Bytes that are held for it, here and in the kernel.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pending.capacity() + kernel_bytes(&self.stream)
    }
}

/// Bytes that the kernel holds for a connection.
pub(crate) fn kernel_bytes(stream: &TcpStream) -> usize {
    let held = tcp::buffered_bytes(stream).unwrap_or_default();
    held.unread as usize + held.unacknowledged as usize
}

/// Whether the other end of a connection has all that was sent to it.
pub(crate) fn is_all_acknowledged(stream: &TcpStream) -> bool {
    tcp::buffered_bytes(stream).is_ok_and(|held| held.unacknowledged == 0)
}

/// Has a connection end with an RST, however it ends, even by the death of this process, so that nobody takes what has come
/// for all.
pub(crate) fn reset_when_dropped(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// Writes leave at once and do not block, and a connection ends when its other end is gone.
pub(crate) fn set_socket_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_INTERVAL);
    let socket = SockRef::from(stream);
    // It would end a connection whose other end takes nothing for a while, as a program may.
    socket.set_tcp_user_timeout(None)?;
    socket.set_tcp_keepalive(&keepalive)
}

/// Writes what the kernel takes: nothing, and then it is not writable any more.
pub(crate) fn write_available(mut stream: &TcpStream, bytes: &[u8], is_writable: &mut bool) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *is_writable = false;
            Ok(0)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        outcome => outcome,
    }
}

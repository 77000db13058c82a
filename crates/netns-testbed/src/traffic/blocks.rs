use super::Traffic;
use crate::network::NetworkError;
use kumade_net::SetupError;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// In which blocks the sender of a connection writes.
#[derive(Debug)]
pub struct BlockWrites {
    bytes: Arc<AtomicUsize>,
    stream: TcpStream,
}

impl BlockWrites {
    pub(super) fn new(bytes: Arc<AtomicUsize>, stream: TcpStream) -> Self {
        BlockWrites { bytes, stream }
    }

    /// From now on each write is of so many bytes (1 at least), and with `no_delay` short segments do not wait for
    /// acknowledgements.
    ///
    /// # Errors
    /// The connection is no more.
    pub fn write(&self, bytes: usize, no_delay: bool) -> Result<(), NetworkError> {
        let set = self.stream.set_nodelay(no_delay);
        set.map_err(|error| SetupError::new("set TCP_NODELAY on a connection", error))?;
        self.bytes.store(bytes.clamp(1, Traffic::MAX_BLOCK_BYTES), Ordering::Relaxed);
        Ok(())
    }
}

use std::fmt;
use std::net::TcpStream;
use std::sync::Arc;

/// Takes over connections that come to a listening end and carry no packets, but a byte stream of their own: those that
/// begin with an initiation of [`kumade_noise_session::channel`]. So one port serves both.
#[derive(Clone)]
pub struct Handover(Arc<dyn Fn(TcpStream, Vec<u8>) + Send + Sync>);

impl Handover {
    /// `take` is called with the connection and the initiation that was read from it. It must not wait.
    pub fn new(take: impl Fn(TcpStream, Vec<u8>) + Send + Sync + 'static) -> Self {
        Handover(Arc::new(take))
    }

    pub(crate) fn take(&self, stream: TcpStream, initiation: Vec<u8>) {
        (self.0)(stream, initiation);
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handover")
    }
}

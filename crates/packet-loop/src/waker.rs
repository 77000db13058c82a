use kumade_net::SetupError;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Wakes a thread that waits for a [`Receiver`](WakeReceiver) together with other descriptors.
#[derive(Debug)]
pub struct PacketWaker(UnixStream);

/// Readable from the first ring until it is [silenced](Self::clear), and once the bell is gone.
#[derive(Debug)]
pub struct WakeReceiver(UnixStream);

/// A bell and what hears it.
///
/// # Errors
/// The system refuses a descriptor.
pub fn new_waker() -> Result<(PacketWaker, WakeReceiver), SetupError> {
    let failed = |error| SetupError::new("create the packet thread's wake-up socket", error);
    let (near, far) = UnixStream::pair().map_err(failed)?;
    near.set_nonblocking(true).and_then(|()| far.set_nonblocking(true)).map_err(failed)?;
    Ok((PacketWaker(near), WakeReceiver(far)))
}

impl PacketWaker {
    /// Wakes it. Costs a system call.
    pub fn wake(&self) {
        // Where its buffer is full, the bell has been rung and not been silenced yet.
        let _ = (&self.0).write(&[1]);
    }
}

impl WakeReceiver {
    /// To be called before the requests are looked at, so that no ring is lost.
    pub fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 64]);
    }
}

impl AsFd for WakeReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

//! Waking a thread that waits for descriptors.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Wakes a thread that waits for a [`WakeReceiver`] together with other descriptors.
#[derive(Debug)]
pub struct Waker(UnixStream);

/// Readable from the first call of [`Waker::wake`] until it is [cleared](Self::clear), and once the waker is gone.
#[derive(Debug)]
pub struct WakeReceiver(UnixStream);

/// A waker and its receiver.
///
/// # Errors
/// The system refuses a descriptor.
pub fn new_waker() -> io::Result<(Waker, WakeReceiver)> {
    let (near, far) = UnixStream::pair()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok((Waker(near), WakeReceiver(far)))
}

impl Waker {
    /// Wakes it. Costs a system call.
    pub fn wake(&self) {
        // Where its buffer is full, the receiver has been woken and has not cleared it yet.
        let _ = (&self.0).write(&[1]);
    }

    /// A descriptor for what can do nothing but write a byte: signal handlers.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub fn duplicate_descriptor(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }
}

impl WakeReceiver {
    /// To be called before what was done meanwhile is looked at, so that no wake-up is lost.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.0).read(&mut bytes), Ok(count) if count == bytes.len()) {}
    }
}

impl AsFd for WakeReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

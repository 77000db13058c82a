//! Socket options that the wrappers in use don't know.

use nix::libc;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// Plain data that the kernel may fill with any bytes.
///
/// # Safety
/// Every bit pattern must be a valid value.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: an integer takes any bits.
unsafe impl Plain for u32 {}
// SAFETY: an integer takes any bits.
unsafe impl Plain for i32 {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::tcp_info {}
// SAFETY: a C struct of integers.
unsafe impl Plain for libc::packet_mreq {}

pub(crate) fn set<T: Plain>(socket: &impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the pointer leads to a live value of the length given, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), mem::size_of::<T>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn get<T: Plain>(socket: &impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `Plain` says that all zeroes are a value.
    let mut value: T = unsafe { mem::zeroed() };
    let mut size = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes to `value`, whatever they are a valid one.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut size) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

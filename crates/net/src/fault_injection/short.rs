use super::listener::{Listener, Notification};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Makes half of a call in the caller's stead; None where that cannot be done, or not by halves.
pub(super) fn perform(listener: &Listener, asked: &Notification, name: &str) -> Option<i64> {
    let [fd, address, length, flags, peer, _] = *asked.arguments();
    let length = length as usize / 2;
    let by_halves = match name {
        "read" | "write" => true,
        // With an address, it is a datagram.
        "sendto" | "recvfrom" => peer == 0,
        _ => false,
    };
    if !by_halves || length == 0 {
        return None;
    }
    let process = Pid::from_raw(process_of_thread(asked.thread())?);
    let file = duplicate_descriptor(process, fd as i32).ok()?;
    let there = [RemoteIoVec { base: address as usize, len: length }];
    let mut bytes = vec![0; length];
    let is_output = matches!(name, "write" | "sendto");
    if is_output && process_vm_readv(process, &mut [IoSliceMut::new(&mut bytes)], &there).ok()? != length {
        return None;
    }
    // What is read from now on would be lost, and what is written might be another's.
    if !listener.is_pending(asked) {
        return None;
    }
    let count = transfer(&file, name, &mut bytes, flags as i32)?;
    if !is_output && count > 0 {
        let there = [RemoteIoVec { base: address as usize, len: count }];
        process_vm_writev(process, &[IoSlice::new(&bytes[..count])], &there).ok()?;
    }
    Some(count as i64)
}

fn transfer(file: &OwnedFd, name: &str, bytes: &mut [u8], flags: i32) -> Option<usize> {
    let (fd, start, length) = (file.as_raw_fd(), bytes.as_mut_ptr(), bytes.len());
    // It must not keep the supervisor: whoever would wait makes the call itself.
    let wanted = if matches!(name, "read" | "recvfrom") { PollFlags::POLLIN } else { PollFlags::POLLOUT };
    let mut fds = [PollFd::new(file.as_fd(), wanted)];
    poll(&mut fds, PollTimeout::ZERO).ok()?;
    if !fds[0].revents()?.contains(wanted) {
        return None;
    }
    // SAFETY: the kernel reads or writes at most the bytes of the slice, which lives across the call.
    let outcome = unsafe {
        match name {
            "read" => libc::read(fd, start.cast(), length),
            "write" => libc::write(fd, start.cast(), length),
            "sendto" => libc::send(fd, start.cast(), length, flags),
            _ => libc::recv(fd, start.cast(), length, flags),
        }
    };
    usize::try_from(outcome).ok()
}

/// A descriptor of another process's open file.
fn duplicate_descriptor(process: Pid, fd: i32) -> io::Result<OwnedFd> {
    let owned = |fd: libc::c_long| match fd {
        0.. => {
            // SAFETY: both calls below return a descriptor that is nobody else's.
            Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
        }
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: pidfd_open(2) takes two integers.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) })?;
    // SAFETY: pidfd_getfd(2) takes three integers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// The process of a thread: proc_pid_status(5).
fn process_of_thread(thread: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

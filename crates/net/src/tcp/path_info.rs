//! What the kernel tells of a TCP connection about its path: how its SYN arrived, and what was negotiated. None of it takes privilege.

use crate::option::{self, SaveSyn, TcpInfo};
use crate::system_facts::TcpPathInfo;
use crate::udp::hop_limit;
use nix::libc;
use nix::sys::socket::setsockopt;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Has the kernel keep the SYN of each connection that a listener accepts from now on (`TCP_SAVE_SYN`).
///
/// # Errors
/// Where the system refuses the option.
pub fn save_syns(listener: &TcpListener) -> io::Result<()> {
    Ok(setsockopt(listener, SaveSyn, &1)?)
}

/// The SYN of an accepted connection, once: from the first byte of the IP header to the end of the TCP header. None where the kernel did not
/// keep it: it was not told to, answered by a SYN cookie, or has given it out before.
///
/// # Errors
/// Where the system refuses the option, or the SYN is longer than `max_bytes`.
pub fn saved_syn(stream: &TcpStream, max_bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut syn = vec![0u8; max_bytes];
    let mut length = max_bytes as libc::socklen_t;
    // SAFETY: the kernel writes no more than `length` bytes, which `syn` has, and the number of those to `length`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_TCP,
            libc::TCP_SAVED_SYN,
            syn.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    syn.truncate(length as usize);
    Ok(Some(syn).filter(|syn| !syn.is_empty()))
}

/// What the kernel tells of a connection.
///
/// # Errors
/// Where the connection is no more.
pub fn path_info(stream: &TcpStream) -> io::Result<TcpPathInfo> {
    let info = option::read(stream, TcpInfo)?;
    // The kernel takes the bytes of time stamps off once they are negotiated.
    let stamps = if info.options & super::TIMESTAMPS_OPTION != 0 { super::TIMESTAMPS_BYTES } else { 0 };
    Ok(TcpPathInfo {
        options: info.options,
        announced_mss: info.advertised_mss.saturating_add(stamps),
        send_mss: info.snd_mss,
        path_mtu: info.path_mtu,
        hop_limit: hop_limit(stream, stream.peer_addr()?.ip()),
        delivered_ce: info.delivered_ce,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_packet::Headers;

    #[test]
    fn the_syn_of_a_connection_is_told_once() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            save_syns(&listener).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let accepted = listener.accept().unwrap().0;
            let syn = saved_syn(&accepted, 512).unwrap().unwrap();
            let headers = Headers::parse(&syn).unwrap();
            assert_eq!(headers.source, client.local_addr().unwrap().ip());
            assert_eq!(saved_syn(&accepted, 512).unwrap(), None, "given out before");
            let [near, far] = [&client, &accepted].map(|stream| path_info(stream).unwrap());
            assert_eq!(near.options, far.options);
            // The first option of Linux.
            let option = if address.starts_with('1') { 40 } else { 60 };
            let mss = u16::from_be_bytes([syn[option + 2], syn[option + 3]]);
            assert_eq!((near.announced_mss, far.announced_mss), (mss.into(), mss.into()), "of the option");
            assert!(near.hop_limit.is_some());
            assert!(saved_syn(&client, 512).ok().flatten().is_none(), "of no accepted connection");
        }
    }

    #[test]
    fn without_being_told_the_kernel_keeps_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(saved_syn(&listener.accept().unwrap().0, 512).unwrap(), None);
    }
}

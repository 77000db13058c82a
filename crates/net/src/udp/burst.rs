use crate::system_facts::SentBurst;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, sendmsg};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Sends `bytes` over a connected socket at once, as datagrams of `datagram_bytes` each, of which the last may be shorter:
/// segmented by the kernel or the device (`UDP_SEGMENT`) as long as `segments` says so, else by sendmmsg(2). Where the kernel
/// refuses to segment, `segments` becomes false for good. Waits for room as the socket's own `send` does.
///
/// # Errors
/// What the socket reports of the first datagram.
pub fn send_burst(socket: &UdpSocket, bytes: &[u8], datagram_bytes: u16, segments: &mut bool) -> io::Result<SentBurst> {
    if *segments && bytes.len() > usize::from(datagram_bytes) {
        let control = [ControlMessage::UdpGsoSegments(&datagram_bytes)];
        match sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, MsgFlags::empty(), None) {
            Ok(_) => return Ok(SentBurst::Segmented),
            // What a device (or IPsec) that cannot do it says, and what an older kernel says; also what one says of datagrams that
            // are too long by now.
            Err(nix::Error::EIO | nix::Error::EINVAL | nix::Error::ENOPROTOOPT) => *segments = false,
            Err(error) => return Err(error.into()),
        }
    }
    let datagrams: Vec<_> = bytes.chunks(usize::from(datagram_bytes).max(1)).map(|part| [IoSlice::new(part)]).collect();
    let mut headers = MultiHeaders::<SockaddrStorage>::preallocate(datagrams.len(), None);
    let nobody = vec![None; datagrams.len()];
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &datagrams, nobody, [], MsgFlags::empty())?;
    Ok(SentBurst::Separate(sent.count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::NoChecksum;
    use nix::sys::socket::setsockopt;

    #[test]
    fn a_burst_arrives_as_its_datagrams_whoever_segments_it() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let bytes: Vec<u8> = (0..250).collect();
        let mut segments = true;
        let send = |segments: &mut bool| {
            let sent = send_burst(&sender, &bytes, 100, segments).unwrap();
            let mut buffer = [0; 200];
            let mut lengths = [0; 3];
            let mut arrived = Vec::new();
            for len in &mut lengths {
                *len = receiver.recv(&mut buffer).unwrap();
                arrived.extend_from_slice(&buffer[..*len]);
            }
            assert_eq!((lengths, &arrived), ([100, 100, 50], &bytes));
            sent
        };
        assert_eq!(send(&mut segments), SentBurst::Segmented);
        // Without checksums no kernel segments.
        setsockopt(&sender, NoChecksum, &1).unwrap();
        assert_eq!((send(&mut segments), segments), (SentBurst::Separate(3), false));
        assert_eq!((send(&mut segments), segments), (SentBurst::Separate(3), false));
    }

    #[test]
    fn nobody_listening_is_an_error_of_the_socket() {
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(send_burst(&sender, &[0; 300], 100, &mut true).is_err(), "not connected");
    }
}

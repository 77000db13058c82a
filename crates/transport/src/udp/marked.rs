//! Small packets with a DSCP, ECN codepoint and hop limit of their own, beside the trains of the same socket.

use super::{PROBE_HEADER_BYTES, UdpProbes};
use crate::error::Error;
use crate::limits::{SEND_SLACK, START_DELAY};
use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::udp::{DatagramArrival, DatagramReceiver};
use kumade_net::platform::{stamp, udp};
use kumade_probe_train::{MarkedArrival, MarkedTrain};
use kumade_units::Span;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

impl UdpProbes {
    /// Sends marked train `number` of the session. Returns the places of the packets that left. Blocks for the train's duration.
    ///
    /// # Errors
    /// [`Error::Plan`] before anything is sent; [`Error::Aborted`] if the control connection is closed; [`Error::Io`] if UDP is rejected.
    pub fn send_marked(&mut self, number: u32, train: &MarkedTrain) -> Result<Vec<u32>, Error> {
        train.check()?;
        self.begin_sending()?;
        self.are_rejections_expected = true;
        let pacer = Pacer::starting_in(START_DELAY);
        let give_up = pacer.instant_at(train.duration() + SEND_SLACK);
        let mut sent = Vec::with_capacity(train.marks.len());
        for (mark, index) in train.marks.iter().zip(0u32..) {
            let offset = train.offset(index as usize);
            if self.control.is_closed_before(&pacer, offset) {
                return Err(Error::Aborted(self.peer));
            }
            self.write_header(0, number, index);
            pacer.wait_until(offset);
            if clock::monotonic() > give_up {
                break;
            }
            let payload = &self.packet[..PROBE_HEADER_BYTES];
            match send_one(&self.socket, payload, mark.ds_field, mark.hop_limit) {
                Ok(()) => {
                    sent.push(index);
                    self.transmit_stamps.advance_keys(1);
                }
                Err(error) if is_of_one_packet(&error) => self.transmit_stamps.is_next_key_known = false,
                Err(error) => return Err(Error::io("send marked packets by UDP to", self.peer)(error)),
            }
            // Nobody wants to know when they left; unread, they would fill the receive buffer.
            while let Ok(Some(_)) = stamp::next_transmit_stamp(&self.socket) {}
        }
        Ok(sent)
    }

    /// Receives marked train `number`, which the peer sends: returns as soon as every packet has arrived, at the latest `timeout` after the
    /// planned duration, counted from this call.
    ///
    /// # Errors
    /// As [`send_marked`](Self::send_marked).
    pub fn receive_marked(
        &mut self,
        number: u32,
        train: &MarkedTrain,
        timeout: Span,
    ) -> Result<Vec<MarkedArrival>, Error> {
        train.check()?;
        udp::report_marks(&self.socket, true).map_err(Error::io("see the marks of packets from", self.peer))?;
        let arrivals = self.collect_marked(number, train, timeout);
        // Other trains need no marks.
        let _ = udp::report_marks(&self.socket, false);
        arrivals
    }

    fn collect_marked(&mut self, number: u32, train: &MarkedTrain, timeout: Span) -> Result<Vec<MarkedArrival>, Error> {
        let deadline = clock::monotonic() + train.duration() + timeout;
        let mut arrived: Vec<Option<MarkedArrival>> = vec![None; train.marks.len()];
        let mut receiver = DatagramReceiver::new(PROBE_HEADER_BYTES);
        // Bounded, even if unrelated packets arrive continuously.
        while arrived.contains(&None) && clock::monotonic() <= deadline {
            let read = |packet: &[u8], DatagramArrival { ds_field, hop_limit, .. }: DatagramArrival| {
                let Some(index) = self.packet_index(packet, number) else { return };
                // The first copy counts.
                if let Some(place @ None) = arrived.get_mut(index as usize) {
                    *place = Some(MarkedArrival { index, ds_field, hop_limit });
                }
            };
            match receiver.receive(&self.socket, read) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.control.is_closed() {
                        return Err(Error::Aborted(self.peer));
                    }
                    self.wait_for_packets(deadline, Span::ZERO)?;
                }
                Err(error) if udp::is_packet_specific(&error) || is_rejection(&error) => {}
                Err(error) => return Err(Error::io("receive marked packets by UDP from", self.peer)(error)),
            }
        }
        Ok(arrived.into_iter().flatten().collect())
    }

    /// TTL or hop limit of the packets that this end sends; none where the system does not say.
    pub fn hop_limit(&self) -> Option<u8> {
        udp::hop_limit(&self.socket, self.peer.ip())
    }

    /// The largest IP packet, in bytes, that the path takes as far as this host knows: less than before where an ICMP message has said so.
    pub fn known_path_mtu(&self) -> Option<u32> {
        udp::path_mtu(&self.socket).ok()
    }

    /// This end's own address.
    ///
    /// # Errors
    /// Where the socket is no more.
    pub fn local_address(&self) -> io::Result<std::net::SocketAddr> {
        self.socket.local_addr()
    }
}

/// Sends a marked packet. Where the kernel reports instead that an earlier one was rejected, which firewalls do with some marks, it is sent all the
/// same.
pub(super) fn send_one(socket: &UdpSocket, payload: &[u8], ds_field: u8, hop_limit: Option<u8>) -> io::Result<()> {
    let send = || udp::send_marked(socket, payload, ds_field, hop_limit);
    send().or_else(|error| if is_rejection(&error) { send() } else { Err(error) })
}

/// Whether an ICMP message has said that a packet was not delivered.
fn is_rejection(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Whether the next packet may be sent: this one found no room, or a rule of this host's own packet filter drops what is marked like that, or that
/// of a router rejects it.
fn is_of_one_packet(error: &io::Error) -> bool {
    udp::is_packet_specific(error)
        || is_rejection(error)
        || matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::WouldBlock)
}

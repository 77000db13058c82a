mod ds_field;
mod hop_trace;
mod marked;

use crate::control_watch::ControlWatch;
use crate::error::Error;
use crate::limits::{READ_INTERVAL, SEND_SLACK, START_DELAY};
use crate::one_sided_records::{ReceivedTrain, SentTrain};
use crate::packets::{ReceivedPackets, SentPackets, await_stamps, is_usable_gap};
use crate::payload::incompressible;
use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::stamp::StampPlace;
use kumade_net::platform::udp::{DatagramArrival, DatagramReceiver, SentBurst, send_burst};
use kumade_net::platform::{readiness, stamp, udp};
use kumade_probe_train::{Burst, Train};
use kumade_units::{Span, Time};
use kumade_wire::{Credential, CredentialBearer, SessionEndpoint, Token};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// Each packet begins with what it shows to be the session's ([`Credential`]), the train's number and the packet's index (both
/// big-endian).
const PROBE_HEADER_BYTES: usize = 24;
/// Maximum time that sending a packet may block for room in the send buffer; then the train is aborted.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum memory of a packet of Ethernet's size in the receive buffer, in bytes, with any ordinary network device.
const PACKET_BUFFER_BYTES: usize = 4608;
/// Maximum memory of a larger packet there, for each of its bytes.
const BUFFER_BYTES_PER_PACKET_BYTE: usize = 2;
/// Memory of an unread transmit time stamp in the receive buffer, in bytes.
const TIMESTAMP_BUFFER_BYTES: usize = 1024;
/// Wait for further time stamps after the last one, if the kernel is known to provide them.
const TIMESTAMP_QUIET_TIME: Span = Span::from_millis(100);
/// The same if it is not known yet.
const UNCONFIRMED_TIMESTAMP_QUIET_TIME: Span = Span::from_millis(20);

/// Trains as UDP datagrams on one connected socket.
#[derive(Debug)]
pub struct UdpProbes {
    socket: UdpSocket,
    peer: SocketAddr,
    credential: Credential,
    /// Which one of the session this is.
    local_endpoint: SessionEndpoint,
    packet: Vec<u8>,
    transmit_stamps: TransmitStamps,
    /// Whether received packets have kernel time stamps.
    stamps_arrivals: bool,
    /// Whether the kernel divides a burst into its packets: until it has refused that.
    uses_segmentation: bool,
    /// Whether packets have been sent since the last train that routers may reject one by one.
    are_rejections_expected: bool,
    /// Size of the receive buffer in bytes.
    receive_buffer_bytes: usize,
    pub(crate) control: ControlWatch,
}

/// State of the kernel's transmit time stamps, whose keys count sent packets.
#[derive(Debug, Clone, Copy)]
struct TransmitStamps {
    next_key: u32,
    /// Whether `next_key` is known. A failed send may have consumed a key (before Linux 6.6 it does): then only earlier keys
    /// are valid, and the count is reset before the next train.
    is_next_key_known: bool,
    /// How many keys of the current train are valid.
    valid_keys: usize,
    /// Whether the kernel has stamped any packet so far.
    has_seen_stamps: bool,
    /// Whether packets are stamped before the interface's queue discipline as well.
    has_queue_stamps: bool,
}

impl TransmitStamps {
    /// So many keys have been used.
    fn advance_keys(&mut self, keys: usize) {
        self.next_key = self.next_key.wrapping_add(keys as u32);
        self.valid_keys += if self.is_next_key_known { keys } else { 0 };
    }
}

impl UdpProbes {
    /// Takes over a socket that is connected to the peer, at this end of the session with this credential.
    ///
    /// # Errors
    /// If the socket is not connected or an option can't be set.
    pub fn new(socket: UdpSocket, credential: Credential, end: SessionEndpoint) -> Result<Self, Error> {
        let nobody = SocketAddr::from(([0, 0, 0, 0], 0));
        let peer = socket.peer_addr().map_err(Error::io("use an unconnected UDP socket towards", nobody))?;
        udp::prepare_socket(&socket, SEND_TIMEOUT).map_err(Error::io("prepare the UDP socket to", peer))?;
        let buffer = udp::receive_buffer_bytes(&socket).map_err(Error::io("prepare the UDP socket to", peer))?;
        let packet = incompressible(Train::MAX_PACKET_BYTES as usize);
        let in_step = stamp::enable_transmit(&socket, false).is_ok();
        let has_queue_stamps = in_step && stamp::set_queue_stamps(&socket, false, true).is_ok();
        let stamps_arrivals = in_step || stamp::enable_receive(&socket).is_ok();
        let transmit = TransmitStamps {
            next_key: 0,
            is_next_key_known: in_step,
            valid_keys: 0,
            has_seen_stamps: false,
            has_queue_stamps,
        };
        let control = ControlWatch::default();
        let segments = true;
        Ok(UdpProbes {
            socket,
            peer,
            credential,
            local_endpoint: end,
            packet,
            transmit_stamps: transmit,
            stamps_arrivals,
            uses_segmentation: segments,
            are_rejections_expected: false,
            receive_buffer_bytes: buffer,
            control,
        })
    }

    /// See [`Probes::max_packet`](crate::Probes::max_packet).
    pub fn max_packet(&self) -> u32 {
        udp::path_mtu(&self.socket).unwrap_or(Train::MAX_PACKET_BYTES).clamp(self.min_packet(), Train::MAX_PACKET_BYTES)
    }

    /// See [`Probes::min_packet`](crate::Probes::min_packet).
    pub fn min_packet(&self) -> u32 {
        udp::header_bytes(self.peer) + PROBE_HEADER_BYTES as u32
    }

    /// See [`Probes::send`](crate::Probes::send).
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, number: u32, train: &Train) -> Result<SentTrain, Error> {
        train.check(Train::MAX_PACKET_BYTES)?;
        self.send_train(number, train, None)
    }

    /// The same of a train that is within the limits, with a DSCP and ECN codepoint of each packet's own where these are given.
    fn send_train(&mut self, number: u32, train: &Train, ds_fields: Option<&[u8]>) -> Result<SentTrain, Error> {
        self.begin_sending()?;
        let first_key = self.transmit_stamps.next_key;
        let mut sent_packets = SentPackets::new(train.packet_count());
        // A burst has the same of all.
        match train.bursts().filter(|_| ds_fields.is_none()) {
            None => self.send_packets(number, train, ds_fields, first_key, &mut sent_packets)?,
            Some(bursts) => self.send_bursts(number, &bursts, first_key, &mut sent_packets)?,
        }
        let quiet =
            if self.transmit_stamps.has_seen_stamps { TIMESTAMP_QUIET_TIME } else { UNCONFIRMED_TIMESTAMP_QUIET_TIME };
        if self.transmit_stamps.is_next_key_known || sent_packets.has_kernel_stamps() {
            await_stamps(&mut sent_packets, quiet, |sent_packets| while self.collect_stamp(first_key, sent_packets) {});
        }
        self.transmit_stamps.has_seen_stamps |= sent_packets.has_kernel_stamps();
        self.set_queue_stamps(sent_packets.needs_queue_stamps(self.transmit_stamps.has_queue_stamps));
        Ok(sent_packets.finish())
    }

    /// See [`Probes::receive`](crate::Probes::receive).
    ///
    /// # Errors
    /// As there.
    pub fn receive(&mut self, number: u32, train: &Train, timeout: Span) -> Result<ReceivedTrain, Error> {
        train.check(u16::MAX.into())?;
        self.receive_train(number, train, timeout, |_, _| ())
    }

    /// The same of a train that is within the limits. `on_packet` gets the place of each packet of it, and what the kernel says of it.
    fn receive_train(
        &mut self,
        number: u32,
        train: &Train,
        timeout: Span,
        mut on_packet: impl FnMut(u32, DatagramArrival),
    ) -> Result<ReceivedTrain, Error> {
        if std::mem::take(&mut self.are_rejections_expected) {
            let _ = self.socket.take_error();
        }
        let deadline = clock::monotonic() + train.duration() + timeout;
        let mut received_packets = ReceivedPackets::new(train.packet_count());
        let mut receiver = DatagramReceiver::new(PROBE_HEADER_BYTES);
        let mut sleep = self.first_read_delay(train);
        while !received_packets.is_complete() {
            let mut add = |packet: &[u8], arrival: DatagramArrival| {
                if let Some(index) = self.packet_index(packet, number) {
                    on_packet(index, arrival);
                    received_packets.record_packet(index, arrival.stamp, clock::realtime());
                }
            };
            match receiver.receive(&self.socket, &mut add) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.control.is_closed() {
                        return Err(Error::Aborted(self.peer));
                    }
                    if clock::monotonic() < deadline {
                        if self.wait_for_packets(deadline, sleep)? {
                            sleep = READ_INTERVAL;
                        }
                        // What has come by then is read.
                        continue;
                    }
                }
                // An ICMP error for a packet that was sent earlier does not concern the receiver.
                Err(error) if udp::is_packet_specific(&error) => {}
                Err(error) => return Err(Error::io("receive probes by UDP from", self.peer)(error)),
            }
            // Bounded, even if unrelated packets or errors arrive continuously.
            if clock::monotonic() >= deadline {
                break;
            }
        }
        Ok(received_packets.finish())
    }

    /// Discards time stamps and errors of earlier trains, and resets the count of keys if necessary.
    fn begin_sending(&mut self) -> Result<(), Error> {
        while let Ok(Some(_)) = stamp::next_transmit_stamp(&self.socket) {}
        let are_rejections_expected = std::mem::take(&mut self.are_rejections_expected);
        if let Ok(Some(error)) = self.socket.take_error()
            && !are_rejections_expected
            && !udp::is_packet_specific(&error)
        {
            return Err(Error::io("send probes by UDP to", self.peer)(error));
        }
        if !self.transmit_stamps.is_next_key_known && stamp::enable_transmit(&self.socket, false).is_ok() {
            self.transmit_stamps.next_key = 0;
            self.transmit_stamps.is_next_key_known = true;
            let were_wanted = std::mem::take(&mut self.transmit_stamps.has_queue_stamps);
            self.set_queue_stamps(were_wanted);
        }
        self.transmit_stamps.valid_keys = 0;
        Ok(())
    }

    /// Without them, the program's own clock readings are used.
    fn set_queue_stamps(&mut self, are_wanted: bool) {
        if self.transmit_stamps.has_queue_stamps != are_wanted {
            let is_done = stamp::set_queue_stamps(&self.socket, false, are_wanted).is_ok();
            self.transmit_stamps.has_queue_stamps = are_wanted && is_done;
        }
    }

    /// Sends a train packet by packet.
    fn send_packets(
        &mut self,
        number: u32,
        train: &Train,
        ds_fields: Option<&[u8]>,
        first_key: u32,
        sent_packets: &mut SentPackets,
    ) -> Result<(), Error> {
        let pacer = Pacer::starting_in(START_DELAY);
        let give_up = pacer.instant_at(train.duration() + SEND_SLACK);
        for (planned, index) in train.packets().zip(0u32..) {
            if self.control.is_closed_before(&pacer, planned.offset) {
                return Err(Error::Aborted(self.peer));
            }
            self.write_header(0, number, index);
            self.collect_stamps_in_gap(&pacer, planned.offset, first_key, sent_packets);
            pacer.wait_until(planned.offset);
            let size = planned.size.max(self.min_packet());
            let ds_field = ds_fields.and_then(|fields| fields.get(index as usize).copied());
            if clock::monotonic() > give_up || !self.send_one(index, size, ds_field, sent_packets)? {
                break;
            }
        }
        Ok(())
    }

    /// Sends a train whose packets are too close together for that. The time stamps are read afterwards: there is one for each
    /// burst, and to read one takes as long as a few packets.
    fn send_bursts(
        &mut self,
        number: u32,
        bursts: &[Burst],
        first_key: u32,
        sent_packets: &mut SentPackets,
    ) -> Result<(), Error> {
        let longest = bursts
            .iter()
            .map(|burst| burst.packets.len() * burst.size.max(self.min_packet()) as usize)
            .max()
            .unwrap_or(0);
        if self.packet.len() < longest {
            self.packet = incompressible(longest);
        }
        let pacer = Pacer::starting_in(START_DELAY);
        let end = bursts.last().map_or(Span::ZERO, |burst| burst.offset);
        let give_up = pacer.instant_at(end + SEND_SLACK);
        for burst in bursts {
            if self.control.is_closed_before(&pacer, burst.offset) {
                return Err(Error::Aborted(self.peer));
            }
            let size = burst.size.max(self.min_packet());
            let payload = (size - udp::header_bytes(self.peer)) as usize;
            for (index, start) in burst.packets.clone().zip((0..).step_by(payload)) {
                self.write_header(start, number, index);
            }
            self.collect_stamps_in_gap(&pacer, burst.offset, first_key, sent_packets);
            pacer.wait_until(burst.offset);
            if clock::monotonic() > give_up || !self.send_burst_packets(burst, size, payload, sent_packets)? {
                break;
            }
        }
        Ok(())
    }

    /// Makes the packet that is sent next from this byte on this one.
    fn write_header(&mut self, start: usize, train: u32, index: u32) {
        let shown =
            self.credential.authenticator_for(CredentialBearer::Packet { sender: self.local_endpoint, train, index });
        let header = &mut self.packet[start..start + PROBE_HEADER_BYTES];
        header[..16].copy_from_slice(&shown.0);
        header[16..20].copy_from_slice(&train.to_be_bytes());
        header[20..].copy_from_slice(&index.to_be_bytes());
    }

    /// As [`send_one`](Self::send_one), the packets of a burst, whose headers are written.
    fn send_burst_packets(
        &mut self,
        burst: &Burst,
        size: u32,
        payload: usize,
        sent_packets: &mut SentPackets,
    ) -> Result<bool, Error> {
        let mut left = burst.packets.clone();
        let mut start = 0;
        while !left.is_empty() {
            let bytes = &self.packet[start..start + left.len() * payload];
            let user = clock::realtime();
            let sent = match send_burst(&self.socket, bytes, payload as u16, &mut self.uses_segmentation) {
                Ok(sent) => sent,
                Err(error) => return self.handle_send_error(error),
            };
            let (keys, packets) = match sent {
                SentBurst::Segmented => (1, left.len()),
                SentBurst::Separate(count) => (count, count),
            };
            let indices = left.by_ref().take(packets);
            match sent {
                SentBurst::Segmented => sent_packets.record_burst(indices, size, user),
                SentBurst::Separate(_) => indices.for_each(|index| _ = sent_packets.record_packet(index, size, user)),
            }
            start += packets * payload;
            self.transmit_stamps.advance_keys(keys);
        }
        Ok(true)
    }

    /// Sends one packet; false if the send buffer remained full. A packet that can't be sent (larger than the path MTU, or
    /// no room in the device's queue) is omitted.
    fn send_one(
        &mut self,
        index: u32,
        size: u32,
        ds_field: Option<u8>,
        sent_packets: &mut SentPackets,
    ) -> Result<bool, Error> {
        let user = clock::realtime();
        match self.send_payload((size - udp::header_bytes(self.peer)) as usize, ds_field) {
            Ok(()) => {
                sent_packets.record_packet(index, size, user);
                self.transmit_stamps.advance_keys(1);
                Ok(true)
            }
            Err(error) => self.handle_send_error(error),
        }
    }

    /// Whether to go on after a failed send.
    fn handle_send_error(&mut self, error: std::io::Error) -> Result<bool, Error> {
        self.transmit_stamps.is_next_key_known = false;
        match error.kind() {
            ErrorKind::WouldBlock => Ok(false),
            ErrorKind::Interrupted => Ok(true),
            _ if udp::is_packet_specific(&error) => Ok(true),
            _ => Err(Error::io("send probes by UDP to", self.peer)(error)),
        }
    }

    /// Reads time stamps as long as there is time before the next packet, or if the error queue is about to overflow.
    fn collect_stamps_in_gap(&self, pacer: &Pacer, offset: Span, first_key: u32, sent_packets: &mut SentPackets) {
        while sent_packets.awaited_count() > 0
            && (is_usable_gap(pacer, offset)
                || sent_packets.awaited_count() >= self.receive_buffer_bytes / TIMESTAMP_BUFFER_BYTES)
            && self.collect_stamp(first_key, sent_packets)
        {}
    }

    /// Reads one time stamp; false if there is none.
    fn collect_stamp(&self, first_key: u32, sent_packets: &mut SentPackets) -> bool {
        let Ok(Some(stamp)) = stamp::next_transmit_stamp(&self.socket) else { return false };
        let key = stamp.key.wrapping_sub(first_key) as usize;
        if key < self.transmit_stamps.valid_keys {
            match stamp.place {
                StampPlace::Queue => {
                    sent_packets.for_each_in_send(key, |packets, place| packets.set_queue_stamp(place, stamp.time))
                }
                StampPlace::Device => {
                    sent_packets.for_each_in_send(key, |packets, place| packets.set_kernel_stamp(place, stamp.time))
                }
            }
        }
        true
    }

    /// The index of a packet of train `number` of this session; none for other packets.
    fn packet_index(&self, packet: &[u8], number: u32) -> Option<u32> {
        let (shown, rest) = packet.split_first_chunk()?;
        let index = u32::from_be_bytes(rest.strip_prefix(&number.to_be_bytes())?.try_into().ok()?);
        let bearer = CredentialBearer::Packet { sender: self.local_endpoint.peer(), train: number, index };
        self.credential.is_authenticator_of(bearer, &Token(*shown)).then_some(index)
    }

    /// How long to sleep after the first packet: for the whole train, if it fits into the receive buffer.
    fn first_read_delay(&self, train: &Train) -> Span {
        let largest = train.packets().map(|packet| packet.size as usize).max().unwrap_or(0);
        let memory = train.packet_count() as usize * PACKET_BUFFER_BYTES.max(BUFFER_BYTES_PER_PACKET_BYTE * largest);
        if memory <= self.receive_buffer_bytes { train.duration() } else { READ_INTERVAL }
    }

    /// Waits for the next packet, then for `sleep`; false if none arrived before the next check of the control. Where reading stamps, it does not
    /// wait, and is always true.
    fn wait_for_packets(&mut self, deadline: Time, sleep: Span) -> Result<bool, Error> {
        // Late time stamps of an earlier train would end every wait at once.
        while let Ok(Some(_)) = stamp::next_transmit_stamp(&self.socket) {}
        // A wait would wake this thread late, and take an error away from who reads.
        let ready = stamp::IS_TIME_OF_READING
            || readiness::wait_readable(&self.socket, self.control.next_wakeup(deadline))
                .map_err(Error::io("wait for probes from", self.peer))?;
        if ready && self.stamps_arrivals {
            self.control.sleep_until((clock::monotonic() + sleep).min(deadline));
        }
        Ok(ready)
    }
}

use crate::control_watch::ControlWatch;
use crate::error::Error;
use crate::limits::{SEND_SLACK, STAMP_WAIT, START_DELAY};
use crate::one_sided_records::{ReceivedTrain, SentTrain};
use crate::packets::{SentPackets, await_stamps, is_usable_gap};
use crate::payload::incompressible;
use kumade_net::clock;
use kumade_net::platform::pacing::Pacer;
use kumade_net::platform::stamp::StampPlace;
use kumade_net::platform::tcp::SegmentSizes;
use kumade_net::platform::{readiness, stamp, tcp};
use kumade_probe_train::Train;
use kumade_probe_train::Transport;
use kumade_units::{Span, Time};
use kumade_wire::TcpEndpointInfo;
use socket2::SockRef;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// IPv6, and TCP with all options.
const MAX_HEADER_BYTES: u32 = 100;
/// No path is so narrow, whatever a peer says.
const MIN_PAYLOAD_BYTES: u32 = 88;

/// Wait for further time stamps after the last one.
const STAMP_QUIET_TIME: Span = Span::from_millis(100);

/// Trains over TCP connections: packet *i* is sent on connection *i* mod M. M and the order of the connections are agreed
/// on at the session's start and don't change, even if a connection breaks: its packets are omitted from then on.
///
/// Both ends compute each packet's payload size from the plan and the connection's header size, so the byte stream needs
/// no framing. Bytes that could not be sent in time are sent before the next train, and the receiver discards as many:
/// the ends stay synchronised.
#[derive(Debug)]
pub struct TcpProbes {
    pub(crate) probe_connections: Vec<ProbeConnection>,
    pub(crate) peer: SocketAddr,
    pub(crate) control: ControlWatch,
    kind: Transport,
    /// What the peer can send in one packet.
    max_payload_bytes: u32,
    filler: Vec<u8>,
    /// Whether packets are stamped before the interface's queue discipline as well.
    has_queue_stamps: bool,
}

/// One of the connections.
#[derive(Debug)]
pub(crate) struct ProbeConnection {
    /// None once the connection is closed or reset.
    pub(crate) stream: Option<TcpStream>,
    /// Size in bytes of the IP and TCP headers of each packet.
    header_bytes: u32,
    /// The number of the next byte, as the kernel counts them in transmit time stamps; none where it makes none.
    next_byte: Option<u32>,
    /// Bytes of earlier trains still to be sent.
    unsent_bytes: u64,
    /// Bytes of earlier trains still to be received and discarded.
    pub(crate) unread_bytes: u64,
    /// Packets of the current train whose time stamps may still arrive: number of the last byte, and place among the sent
    /// packets.
    awaiting_stamps: VecDeque<(u32, usize)>,
}

impl TcpProbes {
    /// PathRakeTCP's probes: `streams` in the order of [`kumade_wire::ServerMessage::Connections`].
    ///
    /// # Errors
    /// If no stream is usable; unusable streams count as closed.
    pub fn rake(streams: Vec<TcpStream>) -> Result<Self, Error> {
        Self::new(streams, Transport::Rake)
    }

    /// All packets on one connection, as an ordinary program would send them: the congestion window delays parts of the
    /// train, and the kernel merges packets.
    ///
    /// # Errors
    /// If the stream is unusable.
    pub fn single(stream: TcpStream) -> Result<Self, Error> {
        Self::new(vec![stream], Transport::Single)
    }

    /// Whether this system tells of a connection what trains over connections take: emulators of Linux do not.
    ///
    /// # Errors
    /// It does not. That the connection is closed is none.
    pub fn check_system(stream: &TcpStream) -> Result<(), Error> {
        let Err(cause) = tcp::segment_sizes(stream) else { return Ok(()) };
        match (cause.kind(), stream.peer_addr()) {
            (ErrorKind::Unsupported, Ok(peer)) => {
                Err(Error::io("read how TCP divides bytes into packets (TCP_INFO) on the connection to", peer)(cause))
            }
            _ => Ok(()),
        }
    }

    fn new(streams: Vec<TcpStream>, kind: Transport) -> Result<Self, Error> {
        streams.iter().try_for_each(Self::check_system)?;
        let peer = streams.iter().find_map(|s| s.peer_addr().ok());
        let slots: Vec<_> = streams.into_iter().map(ProbeConnection::new).collect();
        let peer = peer.ok_or(Error::NoConnection(slots.len() as u32))?;
        let filler = incompressible(Train::MAX_PACKET_BYTES as usize);
        let (max_payload, control) = (u32::MAX, ControlWatch::default());
        let probes = TcpProbes {
            probe_connections: slots,
            peer,
            control,
            kind,
            max_payload_bytes: max_payload,
            filler,
            has_queue_stamps: true,
        };
        probes.check_any_open().map(|()| probes)
    }

    /// What this end knows of its connections; none if all are closed.
    pub fn endpoint_info(&self) -> Option<TcpEndpointInfo> {
        let streams = || self.probe_connections.iter().filter_map(|slot| slot.stream.as_ref());
        let sizes: Vec<SegmentSizes> = streams().filter_map(|stream| tcp::segment_sizes(stream).ok()).collect();
        Some(TcpEndpointInfo {
            header: sizes.iter().map(|sizes| sizes.header_bytes).max()?,
            payload: sizes.iter().map(|sizes| sizes.max_payload_bytes).min()?,
            round_trip: streams().filter_map(|stream| tcp::smoothed_round_trip(stream).ok()).min()?,
        })
    }

    /// Has all connections count so many bytes of headers, as the peer does, whatever they really have: the ends of a
    /// connection that a proxy divides would otherwise differ in what they take for a packet.
    pub fn set_header_bytes(&mut self, header: u32) {
        self.probe_connections.iter_mut().for_each(|slot| slot.header_bytes = header.min(MAX_HEADER_BYTES));
    }

    /// Keeps packets so small that the peer, too, can send them in one piece.
    pub fn limit_payload(&mut self, payload: u32) {
        self.max_payload_bytes = payload.max(MIN_PAYLOAD_BYTES);
    }

    /// See [`Probes::kind`](crate::Probes::kind).
    pub fn kind(&self) -> Transport {
        self.kind
    }

    /// See [`Probes::connections`](crate::Probes::connections).
    pub fn connections(&self) -> u32 {
        self.probe_connections.iter().filter(|slot| slot.stream.is_some()).count() as u32
    }

    /// See [`Probes::max_packet`](crate::Probes::max_packet).
    pub fn max_packet(&self) -> u32 {
        let packets = self
            .probe_connections
            .iter()
            .filter_map(|slot| Some(slot.header_bytes + slot.sizes()?.max_payload_bytes.min(self.max_payload_bytes)));
        // Nothing but the loss of connections would show that larger ones do not pass.
        packets.min().unwrap_or(u32::MAX).min(Train::MAX_ETHERNET_PACKET_BYTES)
    }

    /// See [`Probes::min_packet`](crate::Probes::min_packet).
    pub fn min_packet(&self) -> u32 {
        self.probe_connections.iter().map(|slot| slot.header_bytes + 1).max().unwrap_or(1)
    }

    /// See [`Probes::send`](crate::Probes::send).
    ///
    /// # Errors
    /// As there.
    pub fn send(&mut self, train: &Train) -> Result<SentTrain, Error> {
        train.check(Train::MAX_PACKET_BYTES)?;
        self.check_packets_per_connection(train)?;
        self.begin_sending();
        let mut sent_packets = SentPackets::new(train.packet_count());
        let mut awaited = 0;
        let pacer = Pacer::starting_in(START_DELAY);
        let give_up = pacer.instant_at(train.duration() + SEND_SLACK);
        for (planned, index) in train.packets().zip(0u32..) {
            if self.control.is_closed_before(&pacer, planned.offset) {
                return Err(Error::Aborted(self.peer));
            }
            self.collect_stamps_in_gap(&pacer, planned.offset, &mut awaited, &mut sent_packets);
            pacer.wait_until(planned.offset);
            self.send_one(index, planned.size, give_up, &mut sent_packets);
        }
        drop(pacer);
        let quiet = if self.kind == Transport::Single { STAMP_WAIT } else { STAMP_QUIET_TIME };
        await_stamps(&mut sent_packets, quiet, |sent_packets| {
            self.probe_connections.iter_mut().for_each(|slot| slot.collect_stamps(sent_packets))
        });
        let needs_queue_stamps = sent_packets.needs_queue_stamps(self.has_queue_stamps);
        if needs_queue_stamps != std::mem::replace(&mut self.has_queue_stamps, needs_queue_stamps) {
            for stream in self.probe_connections.iter().filter_map(|slot| slot.stream.as_ref()) {
                // Without them, the program's own clock readings are used.
                let _ = stamp::set_queue_stamps(stream, true, needs_queue_stamps);
            }
        }
        self.check_any_open().map(|()| sent_packets.finish())
    }

    /// See [`Probes::receive`](crate::Probes::receive).
    ///
    /// # Errors
    /// As there.
    pub fn receive(&mut self, train: &Train, timeout: Span) -> Result<ReceivedTrain, Error> {
        train.check(u16::MAX.into())?;
        self.check_packets_per_connection(train)?;
        self.check_any_open()?;
        self.collect_train(train, clock::monotonic() + train.duration() + timeout)
    }

    /// See [`Probes::abort`](crate::Probes::abort).
    pub fn abort(&mut self) {
        for stream in self.probe_connections.iter_mut().filter_map(|slot| slot.stream.take()) {
            // If this fails, the connection is closed by FIN, which only takes longer.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    }

    fn check_packets_per_connection(&self, train: &Train) -> Result<(), Error> {
        let (count, connections) = (train.packet_count(), self.probe_connections.len() as u32);
        let fits = self.kind == Transport::Single
            || count <= connections.saturating_mul(Transport::MAX_PACKETS_PER_CONNECTION);
        if fits {
            Ok(())
        } else {
            Err(Error::TooManyPerConnection { count, connections, limit: Transport::MAX_PACKETS_PER_CONNECTION })
        }
    }

    fn check_any_open(&self) -> Result<(), Error> {
        if self.connections() > 0 { Ok(()) } else { Err(Error::NoConnection(self.probe_connections.len() as u32)) }
    }

    /// Discards time stamps of earlier trains, and sends their remaining bytes.
    fn begin_sending(&mut self) {
        let give_up = clock::monotonic() + SEND_SLACK;
        for slot in &mut self.probe_connections {
            slot.awaiting_stamps.clear();
            slot.collect_stamps(&mut SentPackets::new(0));
            while slot.unsent_bytes > 0 && slot.stream.is_some() {
                let part = slot.unsent_bytes.min(self.filler.len() as u64) as usize;
                let sent = slot.write(&self.filler[..part], false, Some(give_up));
                slot.unsent_bytes -= sent as u64;
                if sent < part {
                    // The peer does not read: it would mistake the next train for the rest of this one.
                    slot.stream = None;
                }
            }
        }
    }

    fn send_one(&mut self, index: u32, size: u32, give_up: Time, sent_packets: &mut SentPackets) {
        let own_packet = self.kind == Transport::Rake;
        let slots = self.probe_connections.len();
        let slot = &mut self.probe_connections[index as usize % slots];
        if slot.stream.is_none() {
            return;
        }
        let payload = slot.payload_bytes(size) as usize;
        if slot.unsent_bytes > 0 {
            slot.unsent_bytes += payload as u64;
            return;
        }
        let user = clock::realtime();
        let sent = slot.write(&self.filler[..payload], own_packet, (!own_packet).then_some(give_up));
        slot.unsent_bytes += (payload - sent) as u64;
        if sent == payload {
            let place = sent_packets.record_packet(index, slot.header_bytes + payload as u32, user);
            match slot.next_byte {
                Some(next) => slot.awaiting_stamps.push_back((next.wrapping_sub(1), place)),
                None => sent_packets.stop_awaiting(place),
            }
        }
    }

    /// Reads time stamps as long as there is time before the next packet, oldest packets first. Those before `awaited` are
    /// done.
    fn collect_stamps_in_gap(
        &mut self,
        pacer: &Pacer,
        offset: Span,
        awaited: &mut usize,
        sent_packets: &mut SentPackets,
    ) {
        while is_usable_gap(pacer, offset) {
            let Some((place, index)) = sent_packets.first_awaited(*awaited) else { return };
            *awaited = place;
            let slots = self.probe_connections.len();
            if !self.probe_connections[index as usize % slots].collect_stamp(sent_packets) {
                return;
            }
        }
    }
}

impl ProbeConnection {
    fn new(stream: TcpStream) -> Self {
        let sizes = tcp::prepare_connection(&stream).and_then(|()| tcp::segment_sizes(&stream));
        let next_byte = stamp::enable_transmit(&stream, true).ok();
        let _ = stamp::set_queue_stamps(&stream, true, true);
        let (stream, header) = sizes.map_or((None, 0), |sizes| (Some(stream), sizes.header_bytes));
        ProbeConnection {
            stream,
            header_bytes: header,
            next_byte,
            unsent_bytes: 0,
            unread_bytes: 0,
            awaiting_stamps: VecDeque::new(),
        }
    }

    fn sizes(&self) -> Option<SegmentSizes> {
        tcp::segment_sizes(self.stream.as_ref()?).ok()
    }

    /// Payload bytes of a packet of `size` on this connection; at least one.
    pub(crate) fn payload_bytes(&self, size: u32) -> u32 {
        size.saturating_sub(self.header_bytes).max(1)
    }

    /// Writes as much as the send buffer takes at once, or waits for room until `give_up`, if given; a failed connection is
    /// closed. Returns the number of bytes written.
    fn write(&mut self, bytes: &[u8], own_packet: bool, give_up: Option<Time>) -> usize {
        let mut sent = 0;
        while let Some(stream) = &self.stream
            && sent < bytes.len()
        {
            match tcp::send(stream, &bytes[sent..], own_packet) {
                Ok(taken) => sent += taken,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let is_room = give_up.is_some_and(|limit| {
                        clock::monotonic() < limit && readiness::wait_writable(stream, limit).unwrap_or(false)
                    });
                    if !is_room {
                        break;
                    }
                }
                Err(_) => self.stream = None,
            }
        }
        self.next_byte = self.next_byte.map(|next| next.wrapping_add(sent as u32));
        sent
    }

    fn collect_stamps(&mut self, sent_packets: &mut SentPackets) {
        while self.collect_stamp(sent_packets) {}
    }

    /// Reads one time stamp; false if there is none.
    pub(crate) fn collect_stamp(&mut self, sent_packets: &mut SentPackets) -> bool {
        let Some(stream) = &self.stream else {
            self.awaiting_stamps.drain(..).for_each(|(_, place)| sent_packets.stop_awaiting(place));
            return false;
        };
        let Ok(Some(stamp)) = stamp::next_transmit_stamp(stream) else { return false };
        let Some(&(first, _)) = self.awaiting_stamps.front() else { return true };
        // Keys grow along the train, modulo 2^32; that of an earlier train's retransmission compares as beyond the last.
        let after_first = |key: u32| key.wrapping_sub(first);
        let found = self.awaiting_stamps.binary_search_by_key(&after_first(stamp.key), |(key, _)| after_first(*key));
        if found == Err(self.awaiting_stamps.len()) {
            return true;
        }
        if stamp.place == StampPlace::Queue {
            if let Some((_, place)) = found.ok().and_then(|found| self.awaiting_stamps.get(found)) {
                sent_packets.set_queue_stamp(*place, stamp.time);
            }
            return true;
        }
        // Packets are sent in order: earlier ones without a time stamp were merged with the next and will not get one.
        for (_, place) in self.awaiting_stamps.drain(..found.unwrap_or_else(|next| next)) {
            sent_packets.stop_awaiting(place);
        }
        if found.is_ok()
            && let Some((_, place)) = self.awaiting_stamps.pop_front()
        {
            sent_packets.set_kernel_stamp(place, stamp.time);
            sent_packets.stop_awaiting(place);
        }
        true
    }

    /// Closes the connection after an error or the peer's close.
    pub(crate) fn close(&mut self) {
        self.stream = None;
    }
}

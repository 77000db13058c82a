//! Packets for the tests of this crate, built by etherparse.

use etherparse::{IpHeaders, PacketBuilder, PacketBuilderStep};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

pub(crate) const V4: (&str, &str) = ("192.0.2.1:40000", "198.51.100.2:5201");
pub(crate) const V6: (&str, &str) = ("[2001:db8::1]:40000", "[2001:db8:ffff::2]:5201");

/// What a sample was made from.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub kind: SampleKind,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum SampleKind {
    Udp,
    /// Sequence, acknowledgment if any, and which of SYN, FIN, RST are set.
    Tcp(u32, Option<u32>, [bool; 3]),
    Echo,
}

impl Sample {
    pub(crate) fn new((source, destination): (&str, &str), kind: SampleKind, payload: &[u8]) -> Self {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Sample { source, destination, kind, payload: payload.to_vec() }
    }

    pub(crate) fn packet(&self) -> Vec<u8> {
        let (from, to) = (self.source.port(), self.destination.port());
        let mut packet = Vec::new();
        match self.kind {
            SampleKind::Udp => self.ip().udp(from, to).write(&mut packet, &self.payload),
            SampleKind::Tcp(sequence, acknowledgment, [syn, fin, rst]) => {
                let mut step = self.ip().tcp(from, to, sequence, 1000);
                step = if let Some(number) = acknowledgment { step.ack(number) } else { step };
                step = if syn { step.syn() } else { step };
                step = if fin { step.fin() } else { step };
                step = if rst { step.rst() } else { step };
                step.write(&mut packet, &self.payload)
            }
            SampleKind::Echo if self.source.is_ipv4() => {
                self.ip().icmpv4_echo_request(1, 2).write(&mut packet, &self.payload)
            }
            SampleKind::Echo => self.ip().icmpv6_echo_request(1, 2).write(&mut packet, &self.payload),
        }
        .unwrap();
        packet
    }

    fn ip(&self) -> PacketBuilderStep<IpHeaders> {
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
            (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
            mixed => panic!("a sample of two versions: {mixed:?}"),
        }
    }
}

/// An ICMP error about a packet, whatever it carries, that quotes all of it.
pub(crate) fn port_unreachable(packet: &[u8]) -> Vec<u8> {
    let headers = crate::headers::Headers::parse(packet).unwrap();
    let ends = (SocketAddr::new(headers.destination, 0), SocketAddr::new(headers.source, 0));
    let step = Sample { source: ends.0, destination: ends.1, kind: SampleKind::Udp, payload: vec![] }.ip();
    let mut error = Vec::new();
    match headers.source {
        IpAddr::V4(_) => step.icmpv4_raw(3, 3, [0; 4]).write(&mut error, packet),
        IpAddr::V6(_) => step.icmpv6_raw(1, 4, [0; 4]).write(&mut error, packet),
    }
    .unwrap();
    error
}

pub(crate) fn any_end(v4: bool) -> impl Strategy<Value = SocketAddr> {
    (any::<u32>(), any::<u128>(), any::<u16>()).prop_map(move |(short, long, port)| {
        let ip = if v4 { IpAddr::V4(short.into()) } else { IpAddr::V6(long.into()) };
        SocketAddr::new(ip, port)
    })
}

/// A valid packet and what it was made from.
pub(crate) fn any_packet() -> impl Strategy<Value = (Vec<u8>, Sample)> {
    let kind = prop_oneof![
        Just(SampleKind::Udp),
        any::<(u32, Option<u32>, [bool; 3])>().prop_map(|(seq, ack, flags)| SampleKind::Tcp(seq, ack, flags)),
        Just(SampleKind::Echo),
    ];
    let payload = prop::collection::vec(any::<u8>(), 0..60);
    (any::<bool>().prop_flat_map(|v4| (any_end(v4), any_end(v4))), kind, payload).prop_map(
        |((source, destination), kind, payload)| {
            let sample = Sample { source, destination, kind, payload };
            (sample.packet(), sample)
        },
    )
}

/// Anything at all, and packets with a few bytes changed, cut or added.
pub(crate) fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let noise = prop::collection::vec(any::<u8>(), 0..200);
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let damaged = (any_packet(), changes, any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..20))
        .prop_map(|((mut packet, _), changes, cut, tail)| {
            for (at, value) in changes {
                let at = at.index(packet.len());
                packet[at] = value;
            }
            packet.truncate(1 + cut.index(packet.len()));
            packet.extend(tail);
            packet
        });
    prop_oneof![noise, damaged]
}

/// An IPv6 UDP packet with these extension headers (number and bytes; the first byte of each is set here).
pub(crate) fn with_extensions(extensions: &[(u8, &[u8])]) -> Vec<u8> {
    let mut packet = Sample::new(V6, SampleKind::Udp, b"payload").packet();
    let (mut next_at, mut offset) = (6, 40);
    for (number, bytes) in extensions {
        let following = std::mem::replace(&mut packet[next_at], *number);
        packet.splice(offset..offset, bytes.iter().copied());
        packet[offset] = following;
        (next_at, offset) = (offset, offset + bytes.len());
    }
    let length = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&length.to_be_bytes());
    packet
}

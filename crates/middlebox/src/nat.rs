use super::Refusal;
use packet::{End, FlowKey, Headers, RewriteError, protocol, quoted_flow, rewrite, rewrite_quoted};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use units::ConfigError;
use units::{Span, Time};

/// A router that hides its inside behind one address (NAPT, RFC 3022), with the mappings of RFC 4787: an inside
/// address and port keeps the same outside port whomever it speaks to, its own number where that is free, and whoever
/// knows the mapping may answer. TCP, UDP and the ICMP errors about them pass; everything else of the same IP version
/// is refused, fragments too. The other IP version passes untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatConfig {
    /// The address that the outside sees.
    pub external: IpAddr,
    /// The first of the ports that mappings may have.
    pub first_port: u16,
    /// The last of them.
    pub last_port: u16,
    /// How long a mapping lasts without a packet from the inside. RFC 4787 asks for 2 minutes and more.
    pub idle: Span,
    /// How packets are refused that have or find no mapping.
    pub unmapped: Refusal,
}

/// At most one mapping for each port of each protocol: that bounds the tables.
#[derive(Debug)]
pub(super) struct Nat {
    config: NatConfig,
    by_port: BTreeMap<(u8, u16), Mapping>,
    by_inside: BTreeMap<(u8, SocketAddr), u16>,
    next_port: u16,
}

#[derive(Debug)]
struct Mapping {
    inside: SocketAddr,
    expires: Time,
}

pub(super) enum Translation {
    Done,
    Refused(Refusal),
}

/// How many ports are tried for a new mapping before its packet is refused: the time for a packet is bounded, and the
/// sender's next attempt goes on from there.
const TRIES: usize = 256;

impl Nat {
    pub(super) fn new(config: NatConfig) -> Result<Self, ConfigError> {
        let error = ConfigError::of("address translation");
        if config.first_port == 0 || config.first_port > config.last_port {
            let range = format!("{} to {}", config.first_port, config.last_port);
            return Err(error("port range", range, "which holds no usable port", "give for example 1024 to 65535"));
        }
        if config.idle <= Span::ZERO {
            let remedy = "give 120 s or more (RFC 4787)";
            return Err(error("idle time", config.idle.to_string(), "in which no answer can come", remedy));
        }
        Ok(Nat { config, by_port: BTreeMap::new(), by_inside: BTreeMap::new(), next_port: config.first_port })
    }

    /// Gives a packet from the inside the outside's address.
    pub(super) fn outbound(&mut self, packet: &mut [u8], headers: &Headers, now: Time) -> Translation {
        if self.is_foreign(headers) {
            return Translation::Done;
        }
        if headers.is_icmp_error() {
            return self.outbound_error(packet, now).unwrap_or(Translation::Refused(Refusal::Drop));
        }
        let port = translatable(headers).and_then(|flow| self.map(flow.protocol, flow.source, now));
        match port {
            Some(port) => done(rewrite(packet, End::Source, SocketAddr::new(self.config.external, port))),
            None => Translation::Refused(self.config.unmapped),
        }
    }

    /// Leads a packet from the outside to whom it is for.
    pub(super) fn inbound(&mut self, packet: &mut [u8], headers: &Headers, now: Time) -> Translation {
        if self.is_foreign(headers) {
            return Translation::Done;
        }
        if headers.is_icmp_error() {
            return self.inbound_error(packet, now).unwrap_or(Translation::Refused(Refusal::Drop));
        }
        let inside = translatable(headers).and_then(|flow| self.inside_of(flow.protocol, flow.destination, now));
        match inside {
            Some(inside) => done(rewrite(packet, End::Destination, inside)),
            None => Translation::Refused(self.config.unmapped),
        }
    }

    /// An inside host reports an error about a packet that was led to it (RFC 5508 §4.2).
    fn outbound_error(&self, packet: &mut [u8], now: Time) -> Option<Translation> {
        let flow = quoted_flow(packet)?;
        let port = *self.by_inside.get(&(flow.protocol, flow.destination))?;
        let outside = SocketAddr::new(self.config.external, port);
        self.inside_of(flow.protocol, outside, now).filter(|inside| *inside == flow.destination)?;
        rewrite_quoted(packet, End::Destination, outside).ok()?;
        Some(done(rewrite(packet, End::Source, outside)))
    }

    /// The outside reports an error about a packet that was translated (RFC 5508 §4.1).
    fn inbound_error(&self, packet: &mut [u8], now: Time) -> Option<Translation> {
        let flow = quoted_flow(packet)?;
        let inside = self.inside_of(flow.protocol, flow.source, now)?;
        rewrite_quoted(packet, End::Source, inside).ok()?;
        Some(done(rewrite(packet, End::Destination, inside)))
    }

    fn is_foreign(&self, headers: &Headers) -> bool {
        headers.source.is_ipv4() != self.config.external.is_ipv4()
    }

    fn inside_of(&self, protocol: u8, outside: SocketAddr, now: Time) -> Option<SocketAddr> {
        let mapping = self.by_port.get(&(protocol, outside.port())).filter(|mapping| mapping.expires > now)?;
        (outside.ip() == self.config.external).then_some(mapping.inside)
    }

    /// The outside port of an inside address, a new one if need be; its idle time begins anew.
    fn map(&mut self, protocol: u8, inside: SocketAddr, now: Time) -> Option<u16> {
        let known = self.by_inside.get(&(protocol, inside)).copied();
        let port = known.or_else(|| self.free_port(protocol, inside.port(), now))?;
        let mapping = Mapping { inside, expires: now + self.config.idle };
        if let Some(old) = self.by_port.insert((protocol, port), mapping).filter(|old| old.inside != inside) {
            self.by_inside.remove(&(protocol, old.inside));
        }
        self.by_inside.insert((protocol, inside), port);
        Some(port)
    }

    fn free_port(&mut self, protocol: u8, preferred: u16, now: Time) -> Option<u16> {
        let (first, last) = (self.config.first_port, self.config.last_port);
        let is_free = |port: &u16| self.by_port.get(&(protocol, *port)).is_none_or(|mapping| mapping.expires <= now);
        if (first..=last).contains(&preferred) && is_free(&preferred) {
            return Some(preferred);
        }
        for port in (self.next_port..=last).chain(first..=last).take(TRIES) {
            self.next_port = if port == last { first } else { port + 1 };
            if is_free(&port) {
                return Some(port);
            }
        }
        None
    }
}

fn translatable(headers: &Headers) -> Option<FlowKey> {
    let has_ports = matches!(headers.protocol, protocol::TCP | protocol::UDP) && headers.transport.is_some();
    (has_ports && !headers.is_fragment()).then(|| FlowKey::of(headers))
}

fn done(result: Result<(), RewriteError>) -> Translation {
    match result {
        Ok(()) => Translation::Done,
        Err(_) => Translation::Refused(Refusal::Drop),
    }
}

#[cfg(test)]
mod tests;

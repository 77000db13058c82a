use crate::rules::RefusalKind;
use ipnet::Ipv4Net;
use kumade_units::{ConfigError, Span};
use std::net::Ipv4Addr;

/// A NAT44: a network address and port translator (NAPT, RFC 3022) for TCP, UDP and ICMP queries over IPv4, which shows
/// the outside one external address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatConfig {
    /// The address that the outside sees.
    pub external: Ipv4Addr,
    /// The inside network; packets from other sources are dropped (RFC 2827).
    pub inside: Ipv4Net,
    /// The first external port or ICMP identifier of mappings.
    pub first_port: u16,
    /// The last one.
    pub last_port: u16,
    /// Which destinations the same inside endpoint has the same external port for (RFC 4787 §4.1). All of them, unless a translator is to be emulated
    /// that does not conform (RFC 4787 REQ-1, RFC 5382 REQ-1).
    pub mapping: EndpointDependence,
    /// Which packets from the outside a mapping lets in (RFC 4787 §5).
    pub filtering: EndpointDependence,
    /// Idle times of sessions.
    pub timeouts: NatTimeouts,
    /// Whether timeouts shorter than the RFCs' minima are accepted: to emulate translators that do not conform.
    pub allow_short_timeouts: bool,
    /// Bounds of the tables.
    pub limits: NatLimits,
    /// How untranslatable packets are refused. With [`RefusalKind::Reject`], packets that find no resources are answered
    /// with ICMP "administratively prohibited" (RFC 5508 REQ-8), and packets from the outside without a mapping as by a
    /// firewall, except for SYNs, which are dropped silently (RFC 5382 REQ-4).
    pub refusal: RefusalKind,
}

/// What of a remote endpoint the translator distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndpointDependence {
    /// Nothing. As filtering: packets from all endpoints are let in, which is best for applications between peers.
    #[default]
    EndpointIndependent,
    /// Its address. As filtering: packets are let in from addresses to which the inside endpoint has sent.
    AddressDependent,
    /// Its address and port. As filtering: packets are let in from endpoints to which the inside endpoint has sent.
    AddressAndPortDependent,
}

/// How long sessions last after the last packet from the inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatTimeouts {
    /// UDP. RFC 4787 REQ-5: "A NAT UDP mapping timer MUST NOT expire in less than two minutes"; "a default value of five
    /// minutes or more […] is RECOMMENDED".
    pub udp: Span,
    /// Established TCP connections. RFC 5382 REQ-5: "the value of the 'established connection idle-timeout' MUST NOT be
    /// less than 2 hours 4 minutes".
    pub tcp_established: Span,
    /// TCP connections that are being opened, closed or were reset. RFC 5382 REQ-5: "The value of the 'transitory
    /// connection idle-timeout' MUST NOT be less than 4 minutes".
    pub tcp_transitory: Span,
    /// ICMP queries. RFC 5508 REQ-2: "An ICMP Query session timer MUST NOT expire in less than 60 seconds".
    pub icmp: Span,
    /// Associations of fragments, and fragments held for them. RFC 6146 §4 demands 2 s at least.
    pub fragment: Span,
}

/// Bounds of a translator's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatLimits {
    /// Sessions altogether.
    pub max_sessions: u32,
    /// Sessions of one inside address.
    pub max_sessions_per_host: u32,
    /// Fragmented datagrams at a time.
    pub max_fragmented_datagrams: u32,
    /// Fragments held until the first one of their datagram arrives.
    pub max_held_fragments: u32,
}

const MIN_UDP_TIMEOUT: Span = Span::from_secs(2 * 60);
const MIN_TCP_ESTABLISHED_TIMEOUT: Span = Span::from_secs(2 * 3600 + 4 * 60);
const MIN_TCP_TRANSITORY_TIMEOUT: Span = Span::from_secs(4 * 60);
const MIN_ICMP_TIMEOUT: Span = Span::from_secs(60);
const MIN_FRAGMENT_TIMEOUT: Span = Span::from_secs(2);

impl NatConfig {
    /// A translator of all inside addresses with the defaults of the RFCs: ports from 1024 on, endpoint-independent
    /// mapping and filtering, silent refusal.
    pub fn new(external: Ipv4Addr) -> Self {
        NatConfig {
            external,
            inside: Ipv4Net::default(),
            first_port: 1024,
            last_port: u16::MAX,
            mapping: EndpointDependence::default(),
            filtering: EndpointDependence::default(),
            timeouts: NatTimeouts::default(),
            allow_short_timeouts: false,
            limits: NatLimits::default(),
            refusal: RefusalKind::Drop,
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let error = ConfigError::for_part("address translation");
        if self.first_port == 0 || self.first_port > self.last_port {
            let range = format!("{} to {}", self.first_port, self.last_port);
            return Err(error("port range", range, "which contains no usable port", "give for example 1024 to 65535"));
        }
        if self.external.is_unspecified() || self.external.is_multicast() || self.external.is_broadcast() {
            let remedy = "give the unicast address of the outside interface";
            return Err(error("external address", self.external.to_string(), "which is no host's", remedy));
        }
        self.limits.check()?;
        self.timeouts.check(self.allow_short_timeouts)
    }
}

impl Default for NatTimeouts {
    fn default() -> Self {
        NatTimeouts {
            udp: Span::from_secs(5 * 60),
            tcp_established: MIN_TCP_ESTABLISHED_TIMEOUT,
            tcp_transitory: MIN_TCP_TRANSITORY_TIMEOUT,
            icmp: MIN_ICMP_TIMEOUT,
            fragment: Span::from_secs(10),
        }
    }
}

impl NatTimeouts {
    fn check(&self, allow_short: bool) -> Result<(), ConfigError> {
        for (name, value, minimum) in [
            ("UDP timeout", self.udp, MIN_UDP_TIMEOUT),
            ("timeout of established TCP", self.tcp_established, MIN_TCP_ESTABLISHED_TIMEOUT),
            ("timeout of transitory TCP", self.tcp_transitory, MIN_TCP_TRANSITORY_TIMEOUT),
            ("ICMP timeout", self.icmp, MIN_ICMP_TIMEOUT),
            ("fragment timeout", self.fragment, MIN_FRAGMENT_TIMEOUT),
        ] {
            let minimum = if allow_short { Span::from_nanos(1) } else { minimum };
            if value < minimum {
                let problem = "which is less than the RFCs allow";
                let remedy = "give at least 2 min, 2 h 4 min, 4 min, 60 s and 2 s, or allow short timeouts";
                return Err(ConfigError::for_part("address translation")(name, value.to_string(), problem, remedy));
            }
        }
        Ok(())
    }
}

impl Default for NatLimits {
    fn default() -> Self {
        NatLimits {
            max_sessions: 65_536,
            max_sessions_per_host: 8_192,
            max_fragmented_datagrams: 4_096,
            max_held_fragments: 64,
        }
    }
}

impl NatLimits {
    fn check(&self) -> Result<(), ConfigError> {
        for (name, value) in [("sessions", self.max_sessions), ("sessions per host", self.max_sessions_per_host)] {
            if value == 0 {
                let remedy = "give at least 1, or refuse all packets by a rule";
                return Err(ConfigError::for_part("address translation")(
                    name,
                    "0".into(),
                    "which lets nothing pass",
                    remedy,
                ));
            }
        }
        Ok(())
    }
}

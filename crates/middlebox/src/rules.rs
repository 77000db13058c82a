use crate::connections::{ConnectionTable, TcpConnection};
use kumade_packet::{Headers, protocol};
use kumade_units::{ConfigError, RateLimiter, Time};

/// How a packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// Silently: the sender runs into its timeout.
    Drop,
    /// With a reply (RST or ICMP "unreachable"), where one is allowed.
    Reject,
}

/// The packets to which a rule applies; without a condition, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketMatch {
    /// Only this protocol; see [`kumade_packet::protocol`]. ICMP stands for both versions.
    pub protocol: Option<u8>,
    /// Only TCP and UDP packets to this port.
    pub destination_port: Option<u16>,
}

/// A rule of a firewall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterRule {
    /// Refuses matching packets.
    Refuse {
        /// Which packets.
        matching: PacketMatch,
        /// How.
        refusal: RefusalKind,
    },
    /// Refuses all but TCP from and to one port.
    AllowOnly {
        /// The port.
        tcp_port: u16,
        /// How others are refused.
        refusal: RefusalKind,
    },
    /// Refuses new TCP connections beyond a number of open ones from one host to one port of another.
    LimitConnections {
        /// The number of open connections allowed.
        max_connections: u32,
        /// How a SYN beyond it is refused.
        refusal: RefusalKind,
    },
    /// Drops SYNs beyond a rate, counted over all connections (token bucket).
    LimitSyns {
        /// Sustained rate, in SYNs per second.
        per_second: u32,
        /// Burst, in SYNs.
        burst: u32,
    },
    /// Forwards a number of TCP data packets, then resets the connection of the next.
    ResetAfter {
        /// The number of data packets forwarded.
        data_packets: u64,
        /// What is counted.
        scope: ResetScope,
    },
}

/// What [`FilterRule::ResetAfter`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetScope {
    /// The data packets of each connection, in both directions.
    Connection,
    /// The data packets of all connections since the last reset.
    Total,
}

/// What a rule decides about a packet that it does not let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleDecision {
    Refuse(RefusalKind),
    Reset,
}

/// A rule with its state.
#[derive(Debug)]
pub(crate) enum RuleState {
    Refuse(PacketMatch, RefusalKind),
    AllowOnly(u16, RefusalKind),
    LimitConnections(u32, RefusalKind, ConnectionTable),
    LimitSyns(RateLimiter),
    ResetAfterEach(u64, ConnectionTable),
    ResetAfterTotal { data_packets: u64, forwarded: u64 },
}

impl FilterRule {
    /// Whether a middlebox can apply this rule.
    ///
    /// # Errors
    /// A value is out of range; the error names it and says what to give instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        let FilterRule::LimitSyns { per_second, burst } = *self else { return Ok(()) };
        let error = ConfigError::for_part("SYN limit");
        for (name, value) in [("rate", per_second), ("burst", burst)] {
            if value == 0 {
                let remedy = "give at least 1, or refuse TCP altogether";
                return Err(error(name, "0".into(), "which lets nothing pass", remedy));
            }
        }
        Ok(())
    }
}

impl RuleState {
    pub(crate) fn new(rule: FilterRule, seed: u128) -> Result<Self, ConfigError> {
        rule.check()?;
        Ok(match rule {
            FilterRule::Refuse { matching, refusal } => RuleState::Refuse(matching, refusal),
            FilterRule::AllowOnly { tcp_port, refusal } => RuleState::AllowOnly(tcp_port, refusal),
            FilterRule::LimitConnections { max_connections, refusal } => {
                RuleState::LimitConnections(max_connections, refusal, ConnectionTable::new(seed))
            }
            FilterRule::LimitSyns { per_second, burst } => {
                RuleState::LimitSyns(RateLimiter::new(per_second.into(), burst.into()))
            }
            FilterRule::ResetAfter { data_packets, scope: ResetScope::Connection } => {
                RuleState::ResetAfterEach(data_packets, ConnectionTable::new(seed))
            }
            FilterRule::ResetAfter { data_packets, scope: ResetScope::Total } => {
                RuleState::ResetAfterTotal { data_packets, forwarded: 0 }
            }
        })
    }

    /// Why this rule does not let a packet pass, if so. Does not count the packet.
    pub(crate) fn decide(&mut self, headers: &Headers, now: Time) -> Option<RuleDecision> {
        let opens = headers.tcp().is_some_and(|tcp| tcp.is_connection_request());
        let data = headers.tcp().is_some_and(|tcp| tcp.payload_len > 0 && !tcp.rst && tcp.acknowledgment.is_some());
        let connection = TcpConnection::from_client(headers);
        match self {
            RuleState::Refuse(matching, refusal) => matching.matches(headers).then_some(RuleDecision::Refuse(*refusal)),
            RuleState::AllowOnly(port, refusal) => {
                let ports = headers.tcp().and(headers.ports);
                let allowed = ports.is_some_and(|(source, destination)| source == *port || destination == *port);
                (!allowed).then_some(RuleDecision::Refuse(*refusal))
            }
            RuleState::LimitConnections(max_connections, refusal, table) => {
                let connection = connection.filter(|_| opens)?;
                let allowed = table.is_open(&connection) || table.has_room(&connection, *max_connections, now);
                (!allowed).then_some(RuleDecision::Refuse(*refusal))
            }
            RuleState::LimitSyns(limiter) => {
                let is_empty = limiter.available_at() > now;
                (opens && is_empty).then_some(RuleDecision::Refuse(RefusalKind::Drop))
            }
            RuleState::ResetAfterEach(data_packets, table) => {
                let connection = connection.filter(|_| data)?;
                (table.data_packets(&connection) >= *data_packets).then_some(RuleDecision::Reset)
            }
            RuleState::ResetAfterTotal { data_packets, forwarded } => {
                if !data || *forwarded < *data_packets {
                    return None;
                }
                *forwarded = 0;
                Some(RuleDecision::Reset)
            }
        }
    }

    /// Notes a forwarded packet.
    pub(crate) fn record_forwarded(&mut self, headers: &Headers, now: Time) {
        let (Some(tcp), Some(connection)) = (headers.tcp(), TcpConnection::from_client(headers)) else { return };
        match self {
            RuleState::Refuse(..) | RuleState::AllowOnly(..) => {}
            // Packets still in flight after their connection was reset must not open it again.
            RuleState::LimitConnections(_, _, table) if !tcp.is_connection_request() && !table.is_open(&connection) => {
            }
            RuleState::LimitConnections(_, _, table) | RuleState::ResetAfterEach(_, table) => {
                table.record_forwarded(connection, tcp, now);
            }
            RuleState::LimitSyns(limiter) if tcp.is_connection_request() => {
                // It was looked at before: there is one.
                limiter.take(1.0, now);
            }
            RuleState::LimitSyns(_) => {}
            RuleState::ResetAfterTotal { forwarded, .. } => *forwarded += u64::from(tcp.payload_len > 0),
        }
    }

    /// Notes that the middlebox has reset a connection.
    pub(crate) fn remove_connection(&mut self, connection: &TcpConnection) {
        if let RuleState::LimitConnections(_, _, table) | RuleState::ResetAfterEach(_, table) = self {
            table.remove_connection(connection);
        }
    }
}

impl PacketMatch {
    pub(crate) fn matches(&self, headers: &Headers) -> bool {
        // To those who write rules, ICMP and ICMPv6 are one protocol.
        let icmp = |number| if number == protocol::ICMPV6 { protocol::ICMP } else { number };
        self.protocol.is_none_or(|number| icmp(number) == icmp(headers.protocol))
            && self.destination_port.is_none_or(|port| headers.ports.is_some_and(|(_, to)| to == port))
    }
}

use super::connections::{Connection, Connections};
use packet::{Headers, protocol};
use units::ConfigError;
use units::{Span, Time};

/// How a firewall refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// In silence: the sender waits.
    Drop,
    /// With an answer (RST, or ICMP "unreachable"), as far as one may be given.
    Reject,
}

/// Which packets; without a condition, all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Match {
    /// This protocol only; see [`packet::protocol`].
    pub protocol: Option<u8>,
    /// TCP and UDP packets to this port only.
    pub destination_port: Option<u16>,
}

/// Something that a middlebox does to some packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Refuses what matches.
    Refuse {
        /// Which packets.
        matching: Match,
        /// In which way.
        how: Refusal,
    },
    /// Refuses all but TCP from and to one port.
    AllowOnly {
        /// The port.
        tcp_port: u16,
        /// How the rest is refused.
        how: Refusal,
    },
    /// Refuses the SYN of a connection beyond so many open ones from one host to one port of another.
    LimitConnections {
        /// How many may be open.
        most: u32,
        /// Dropped, the connection hangs; rejected, it is answered by RST.
        how: Refusal,
    },
    /// Drops SYNs beyond a rate, all connections together (token bucket).
    LimitSyns {
        /// How many pass in a second.
        per_second: u32,
        /// How many pass at once after a pause.
        burst: u32,
    },
    /// Lets so many TCP packets with data pass, then puts a RST to both ends in the place of the next.
    ResetAfter {
        /// How many pass.
        data_packets: u64,
        /// What is counted.
        scope: ResetScope,
    },
}

/// What [`Rule::ResetAfter`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetScope {
    /// Each connection by itself, both of its directions.
    Connection,
    /// All data packets together; after each reset the count begins anew.
    Total,
}

/// What a rule says of a packet that it does not let pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Refuse(Refusal),
    Reset,
}

/// A rule with what it has to remember.
#[derive(Debug)]
pub(super) enum RuleState {
    Refuse(Match, Refusal),
    AllowOnly(u16, Refusal),
    LimitConnections(usize, Refusal, Connections),
    LimitSyns(TokenBucket),
    ResetAfterEach(u64, Connections),
    ResetAfterTotal { data_packets: u64, passed: u64 },
}

/// A token bucket as the instant at which it will be full again (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug)]
pub(super) struct TokenBucket {
    full_at: Time,
    per_token: Span,
    /// How far ahead `full_at` may be for one more token to be there.
    tolerance: Span,
}

impl RuleState {
    pub(super) fn new(rule: Rule) -> Result<Self, ConfigError> {
        Ok(match rule {
            Rule::Refuse { matching, how } => RuleState::Refuse(matching, how),
            Rule::AllowOnly { tcp_port, how } => RuleState::AllowOnly(tcp_port, how),
            Rule::LimitConnections { most, how } => RuleState::LimitConnections(most as usize, how, Connections::new()),
            Rule::LimitSyns { per_second, burst } => {
                let error = ConfigError::of("SYN limit");
                for (name, value) in [("rate", per_second), ("burst", burst)] {
                    if value == 0 {
                        let remedy = "give at least 1, or refuse TCP altogether";
                        return Err(error(name, "0".into(), "which lets nothing pass", remedy));
                    }
                }
                RuleState::LimitSyns(TokenBucket::new(per_second, burst))
            }
            Rule::ResetAfter { data_packets, scope: ResetScope::Connection } => {
                RuleState::ResetAfterEach(data_packets, Connections::new())
            }
            Rule::ResetAfter { data_packets, scope: ResetScope::Total } => {
                RuleState::ResetAfterTotal { data_packets, passed: 0 }
            }
        })
    }

    /// What this rule has against a packet; it has not passed yet.
    pub(super) fn judge(&mut self, headers: &Headers, now: Time) -> Option<Verdict> {
        let opens = headers.tcp().is_some_and(|tcp| tcp.opens());
        let data = headers.tcp().is_some_and(|tcp| tcp.payload_len > 0 && !tcp.rst && tcp.acknowledgment.is_some());
        let connection = Connection::from_client(headers);
        match self {
            RuleState::Refuse(matching, how) => matching.covers(headers).then_some(Verdict::Refuse(*how)),
            RuleState::AllowOnly(port, how) => {
                let allowed =
                    headers.tcp().is_some_and(|tcp| tcp.source_port == *port || tcp.destination_port == *port);
                (!allowed).then_some(Verdict::Refuse(*how))
            }
            RuleState::LimitConnections(most, how, table) => {
                let connection = connection.filter(|_| opens)?;
                let allowed = table.knows(&connection) || table.has_room(&connection, *most, now);
                (!allowed).then_some(Verdict::Refuse(*how))
            }
            RuleState::LimitSyns(bucket) => (opens && !bucket.has_token(now)).then_some(Verdict::Refuse(Refusal::Drop)),
            RuleState::ResetAfterEach(most, table) => {
                let connection = connection.filter(|_| data)?;
                (table.data_packets(&connection) >= *most).then_some(Verdict::Reset)
            }
            RuleState::ResetAfterTotal { data_packets, passed } => {
                if !data || *passed < *data_packets {
                    return None;
                }
                *passed = 0;
                Some(Verdict::Reset)
            }
        }
    }

    /// Notes a packet that no rule refused.
    pub(super) fn forwarded(&mut self, headers: &Headers, now: Time) {
        let (Some(tcp), Some(connection)) = (headers.tcp(), Connection::from_client(headers)) else { return };
        match self {
            RuleState::Refuse(..) | RuleState::AllowOnly(..) => {}
            // What is still on its way after its connection was broken off must not open it again.
            RuleState::LimitConnections(_, _, table) if !tcp.opens() && !table.knows(&connection) => {}
            RuleState::LimitConnections(_, _, table) | RuleState::ResetAfterEach(_, table) => {
                table.forwarded(connection, tcp, now);
            }
            RuleState::LimitSyns(bucket) if tcp.opens() => bucket.take(now),
            RuleState::LimitSyns(_) => {}
            RuleState::ResetAfterTotal { passed, .. } => *passed += u64::from(tcp.payload_len > 0),
        }
    }

    /// A connection has been broken off by the middlebox itself.
    pub(super) fn forget(&mut self, connection: &Connection) {
        if let RuleState::LimitConnections(_, _, table) | RuleState::ResetAfterEach(_, table) = self {
            table.forget(connection);
        }
    }
}

impl Match {
    fn covers(&self, headers: &Headers) -> bool {
        // A rule for ICMP means that of either version: they are one protocol to those who write rules.
        let icmp = |number| if number == protocol::ICMPV6 { protocol::ICMP } else { number };
        self.protocol.is_none_or(|number| icmp(number) == icmp(headers.protocol))
            && self.destination_port.is_none_or(|port| headers.ports().is_some_and(|(_, to)| to == port))
    }
}

impl TokenBucket {
    fn new(per_second: u32, burst: u32) -> Self {
        let per_token = Span::from_secs(1) / i64::from(per_second);
        TokenBucket { full_at: Time::from_nanos(i64::MIN), per_token, tolerance: per_token * (i64::from(burst) - 1) }
    }

    fn has_token(&self, now: Time) -> bool {
        self.full_at <= now + self.tolerance
    }

    fn take(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + self.per_token;
    }
}

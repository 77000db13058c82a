use crate::clock::HostClock;
use crate::error::ServeError;
use crate::source_limits::{Admission, SourceLimits, TestPacketId};
use crate::stop_waker::StopWaker;
use kumade_net::datagram::{self, Datagram};
use kumade_net::readiness::EpollSet;
use kumade_net::responder::Responder;
use kumade_net::waker::Waker;
use kumade_net::{clock, listener};
use kumade_packet::DsField;
use kumade_units::{Span, Time};
use kumade_wire::PresharedKey;
use kumade_wire::stamp::{
    BYTES_WITH_PROBE_SEQUENCE, BYTES_WITH_RECEIVE_STAMP, ErrorEstimate, FollowUpTelemetry, PORT, Probe, ProbeFacts,
    ProbeLocation, Reflection, Reply, StampKey, SynchronisationSource, TimestampInformation, TimestampMethod,
    reflect_tlvs, reply_stamps,
};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use socket2::{Socket, Type};
use std::io;
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SOCKET_EVENT: u32 = 0;
const STOP_EVENT: u32 = 1;
/// Interval between checks of the stop flag, where nobody wakes the reflector for it, and of the clock's error.
const CHECK_INTERVAL: Span = Span::from_millis(100);
/// Error estimate of an unsynchronised clock.
const UNSYNCHRONISED_ERROR: Span = Span::from_secs(1);
/// A packet that has a time stamp of this reflector that is no older is one of its replies, or a reply to one.
const MAX_ECHO_AGE: Span = Span::from_secs(60);
/// Maximum size of an IP packet in bytes; longer ones would come back in fragments, to whatever address they name.
const MAX_PACKET_BYTES: usize = 1500;
/// Bytes of the IP and UDP headers.
const IPV4_UDP_HEADER_BYTES: usize = 28;
const IPV6_UDP_HEADER_BYTES: usize = 48;
/// Maximum number of system calls that receive test packets, 64 each, before the stop flag is looked at.
const MAX_RECEIVE_CALLS: usize = 16;
/// Bytes of waiting test packets, as far as the system allows.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// Configuration of a reflector.
#[derive(Debug, Clone)]
pub struct ReflectorConfig {
    /// Address and port; none means the standard port 862 on all addresses. The unspecified IPv6 address includes IPv4.
    pub listen: Option<SocketAddr>,
    /// The clock of its time stamps.
    pub clock: HostClock,
    /// Only test packets that are authenticated with this key are answered (RFC 8762, 4.4); none for any test packets.
    pub key: Option<PresharedKey>,
    /// Answers zeroes to who asks between which addresses and ports a test packet came (RFC 8972, 4.2.2): behind address
    /// translation, these are inside ones.
    pub withholds_location: bool,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        ReflectorConfig { listen: None, clock: HostClock::System, key: None, withholds_location: false }
    }
}

/// A stateful STAMP reflector (RFC 8762, 4.3), which numbers its replies in each session, and fills in the optional extensions of
/// RFC 8972. Replies have the size of the test packets, also of those of TWAMP Light that are shorter than STAMP's, their rate is limited for each source (2000 packets per second, 2 Mbit/s), test packets of more than 1500
/// bytes (IP) are not answered, and replies of other reflectors are not answered, which prevents
/// loops.
#[derive(Debug)]
pub struct Reflector {
    socket: UdpSocket,
    address: SocketAddr,
    state: ReflectorState,
    stop_waker: StopWaker,
}

impl Reflector {
    /// Binds the socket.
    ///
    /// # Errors
    /// If the address is in use, not available, or requires privileges.
    pub fn bind(config: &ReflectorConfig) -> Result<Self, ServeError> {
        let address = config.listen.unwrap_or((Ipv6Addr::UNSPECIFIED, PORT).into());
        let failed = |cause| ServeError::Listen { address, protocol: "STAMP", cause };
        let socket = bind(address).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let stop_waker = StopWaker::new().map_err(ServeError::Wait)?;
        Ok(Reflector { socket, address, state: ReflectorState::new(config, address.port()), stop_waker })
    }

    /// The address it listens on, with the actual port if zero was configured.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop` is set, which is noticed within 100 ms, or where [woken](Self::stop_waker).
    ///
    /// # Errors
    /// If the socket can't be polled.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), ServeError> {
        let mut responder = Responder::new(MAX_PACKET_BYTES);
        let readiness = EpollSet::new().map_err(ServeError::Wait)?;
        readiness.add_reader(&self.socket, SOCKET_EVENT).map_err(ServeError::Wait)?;
        readiness.add_reader(self.stop_waker.receiver(), STOP_EVENT).map_err(ServeError::Wait)?;
        let mut events = Vec::new();
        let mut asked = clock::monotonic();
        while !stop.load(Ordering::SeqCst) {
            let checks = !self.stop_waker.is_used();
            let deadline = if checks { clock::monotonic() + CHECK_INTERVAL } else { Time::MAX };
            readiness.wait(&mut events, deadline).map_err(ServeError::Wait)?;
            // Before the packets that have come meanwhile are answered.
            if clock::monotonic() - asked > CHECK_INTERVAL {
                asked = clock::monotonic();
                self.state.error_estimate = error_estimate_of(self.state.clock);
            }
            for event in &events {
                match event.number {
                    STOP_EVENT => self.stop_waker.receiver().clear(),
                    _ => self.answer_queued_packets(&mut responder),
                }
            }
        }
        Ok(())
    }

    /// What wakes the reflector after `stop` of [`run`](Self::run) was set. Whoever has this has to: it does not look at the flag by
    /// itself any more.
    pub fn stop_waker(&mut self) -> Arc<Waker> {
        self.stop_waker.take()
    }

    fn answer_queued_packets(&mut self, responder: &mut Responder) {
        let Reflector { socket, state: answering, .. } = self;
        for _ in 0..MAX_RECEIVE_CALLS {
            match responder.respond(socket, |probe, payload| answering.write_reply(probe, payload)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An ICMP error for an earlier reply, or another transient error.
                Err(error) => return tracing::debug!("no STAMP probe: {error}"),
            }
        }
    }
}

/// Whether and what test packets are answered.
#[derive(Debug)]
struct ReflectorState {
    clock: HostClock,
    key: Option<StampKey>,
    error_estimate: ErrorEstimate,
    source_limits: SourceLimits,
    /// The reflector's own; none where it is not told.
    told_port: Option<u16>,
}

impl ReflectorState {
    fn new(config: &ReflectorConfig, port: u16) -> Self {
        ReflectorState {
            clock: config.clock,
            key: config.key.as_ref().map(StampKey::new),
            error_estimate: error_estimate_of(config.clock),
            source_limits: SourceLimits::default(),
            told_port: (!config.withholds_location).then_some(port),
        }
    }

    /// Makes the answer of a test packet in its place; returns DSCP and ECN that it is to have, or none if there is no answer.
    fn write_reply(&mut self, probe: &Datagram, payload: &mut [u8]) -> Option<DsField> {
        let now = clock::realtime();
        let bytes = probe.len
            + if probe.source.ip().to_canonical().is_ipv4() { IPV4_UDP_HEADER_BYTES } else { IPV6_UDP_HEADER_BYTES };
        let shown = self.clock.time_at(now);
        if probe.is_truncated || bytes > MAX_PACKET_BYTES || (self.key.is_none() && is_reply(payload, shown)) {
            return None;
        }
        let ReflectorState { clock, key, error_estimate: estimate, source_limits: sources, .. } = self;
        const { assert!(BYTES_WITH_RECEIVE_STAMP <= BYTES_WITH_PROBE_SEQUENCE) };
        let is_short = payload.len() < BYTES_WITH_PROBE_SEQUENCE;
        let mut admitted = None;
        let answer = |question: &Probe| {
            let reflected = clock.time_at(clock::realtime());
            let test = TestPacketId { session: question.session, sequence: question.sequence, is_short, reflected };
            admitted = sources.admit_packet(probe.source, bytes, test, clock::monotonic());
            Reflection {
                sequence: admitted.map_or(0, |admission| admission.sequence),
                received: clock.time_at(probe.stamp.unwrap_or(now)),
                reflected,
                error_estimate: *estimate,
                probe_ttl: probe.ttl.unwrap_or(255),
            }
        };
        let question = match key {
            Some(key) => Reply::reflect_authenticated(payload, key, answer).ok()?,
            None => Reply::reflect(payload, answer).ok()?,
        };
        let facts = self.probe_facts(probe, question.sequence, admitted?);
        Some(reflect_tlvs(payload, self.key.as_ref(), &facts).unwrap_or_default())
    }

    /// What the optional extensions tell of a test packet (RFC 8972).
    fn probe_facts(&self, probe: &Datagram, sequence: u32, admission: Admission) -> ProbeFacts {
        let Admission { reply_count, last_reply, .. } = admission;
        // The kernel says whether something sets its clock, by an interface that is NTP's, and not what.
        let source =
            if self.error_estimate.synchronised { SynchronisationSource::Ntp } else { SynchronisationSource::Local };
        let (source, method) = (Some(source), Some(TimestampMethod::Software));
        ProbeFacts {
            sequence,
            ds_field: probe.ds_field.unwrap_or_default(),
            location: self.told_port.map(|port| ProbeLocation {
                source: probe.source,
                destination: probe.destination,
                destination_port: port,
            }),
            timestamps: TimestampInformation {
                source_in: source,
                method_in: method,
                source_out: source,
                method_out: method,
            },
            format: self.error_estimate.format,
            // What exceeds the source's rate is out of profile, and is not counted (RFC 8972, 4.5).
            received: reply_count,
            transmitted: reply_count,
            last_reflection: last_reply.map(|(sequence, reflected)| FollowUpTelemetry { sequence, reflected, method }),
        }
    }
}

fn error_estimate_of(clock: HostClock) -> ErrorEstimate {
    let error = clock.maximum_error();
    ErrorEstimate::new(error.is_some(), error.unwrap_or(UNSYNCHRONISED_ERROR))
}

/// Whether this is an answer: it has a recent time stamp of this clock, which shows `now`, as that of the packet that it
/// answers, or is one of this reflector, sent back as it was (RFC 862).
fn is_reply(payload: &[u8], now: Time) -> bool {
    reply_stamps(payload).any(|stamp| {
        let age = now - stamp;
        age >= Span::ZERO && age < MAX_ECHO_AGE
    })
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = listener::bind(address, Type::DGRAM, enlarge_receive_buffer)?.into();
    datagram::prepare_socket(&socket)?;
    Ok(socket)
}

fn enlarge_receive_buffer(socket: &Socket) -> io::Result<()> {
    // Beyond the system's limit it takes CAP_NET_ADMIN; less room without it is no error.
    if setsockopt(socket, RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_wire::stamp::{ClockFormat, MIN_PROBE_BYTES, PACKET_BYTES, Probe};
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn reflector() -> ReflectorState {
        ReflectorState::new(&ReflectorConfig::default(), PORT)
    }

    proptest! {
        /// A forged packet of any size and contents, and two reflectors each of which is given what the other one answers.
        #[test]
        fn no_answer_is_longer_than_its_question_and_no_reflectors_answer_each_other_for_long(
            mut payload in prop::collection::vec(any::<u8>(), 0..300),
            has_time in any::<bool>(),
        ) {
            if let Some(stamp) = payload.get_mut(4..12).filter(|_| has_time) {
                stamp.copy_from_slice(&ClockFormat::Ntp.encode(clock::realtime()));
            }
            let len = payload.len();
            let mut reflectors = [reflector(), reflector()];
            let mut answers = 0;
            for step in 0..20 {
                let source = (Ipv4Addr::new(192, 0, 2, 1 + step % 2), PORT).into();
                let question = Datagram {
                    len,
                    is_truncated: false,
                    source,
                    destination: None,
                    ttl: None,
                    ds_field: None,
                    stamp: None,
                };
                if reflectors[usize::from(step % 2)].write_reply(&question, &mut payload).is_none() {
                    break;
                }
                answers += 1;
            }
            prop_assert_eq!(payload.len(), len, "it is written in the question's place");
            prop_assert!(answers <= 2, "{answers}");
            prop_assert_eq!(answers > 0, len >= MIN_PROBE_BYTES);
        }
    }

    #[test]
    fn answers_are_told_from_probes_whatever_their_port() {
        let now = Time::from_nanos(1_763_000_000_123_456_789);
        let clock = ErrorEstimate::new(true, Span::from_millis(1));
        let mut payload = [0; PACKET_BYTES];
        Probe { sequence: 4, sent: now, error_estimate: clock, session: 0 }.encode(&mut payload);
        assert!(!is_reply(&payload, now + Span::from_millis(5)), "a probe");
        let answer = |_: &Probe| Reflection {
            sequence: 4,
            reflected: now,
            received: now,
            error_estimate: clock,
            probe_ttl: 255,
        };
        Reply::reflect(&mut payload, answer).unwrap();
        assert!(is_reply(&payload, now + Span::from_millis(5)), "an answer to a probe with this clock's stamp");
        assert!(!is_reply(&payload, now + MAX_ECHO_AGE), "whatever stands in old padding");
        assert!(!is_reply(&payload, now - Span::from_nanos(1)));
        assert!(!is_reply(&[0xff; 14], now));
        // Whoever it is that asks decides which stamp it repeats.
        Probe { sequence: 4, sent: Time::ZERO, error_estimate: clock, session: 0 }.encode(&mut payload);
        Reply::reflect(&mut payload, answer).unwrap();
        assert!(is_reply(&payload, now + Span::from_millis(5)), "an answer that comes back from an echo service");
    }
}

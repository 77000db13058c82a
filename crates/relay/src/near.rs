use crate::message::Message;
use crate::plain;
use crate::report::RelayReport;
use crate::sealed::{SealedStream, read_handshake_record};
use crate::stream_end::StreamEndReason;
use crate::target::Target;
use kumade_net::tcp::{self, PendingConnection, RtoLimits};
use kumade_net::{ResolvedHost, SocketBinding, clock, congestion};
use kumade_noise_session::channel::{PendingStream, StreamInitiator};
use kumade_noise_session::stream::RecordReader;
use kumade_noise_session::{PresharedKey, PublicKey, RefusedDatagram};
use kumade_units::Time;
use rand::rngs::StdRng;
use std::io::{self, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};

/// The near end: begins a stream for each connection that a local program opens.
pub(crate) struct NearEnd {
    pub(crate) host: ResolvedHost,
    pub(crate) binding: SocketBinding,
    /// The far end's key, and the second one that both have.
    pub(crate) peer: (PublicKey, PresharedKey),
    pub(crate) initiator: StreamInitiator,
    pub(crate) random: StdRng,
    pub(crate) congestion_control: Option<String>,
    pub(crate) rto: RtoLimits,
    /// That its clock is behind has been said.
    pub(crate) has_reported_clock: bool,
}

/// A stream that is being begun.
pub(crate) struct DialingStream {
    state: DialState,
    attempt: DialAttempt,
    pub(crate) plain: TcpStream,
    pub(crate) target: Target,
}

/// An attempt to connect to one of the far end's addresses.
struct DialAttempt {
    address: SocketAddr,
    since: Time,
    /// So many were made before.
    attempts_before: u32,
    /// It has been said that the address does not answer.
    is_failure_recorded: bool,
    is_unwatched: bool,
}

/// Attempts for a stream at most: a name may have several addresses that refuse at once.
const MAX_ATTEMPTS: u32 = 8;

enum DialState {
    Connecting(PendingConnection),
    /// The far end has been sent an initiation.
    AwaitingResponse {
        stream: TcpStream,
        reader: RecordReader,
        initiation: Box<PendingStream>,
        /// Once is enough, if the far end is honest.
        has_begun_anew: bool,
    },
    /// Over, for better or worse.
    Done,
}

impl NearEnd {
    pub(crate) fn dial(&self, plain: TcpStream, target: Target) -> io::Result<DialingStream> {
        let (connecting, attempt) = self.begin_attempt(0)?;
        Ok(DialingStream { state: DialState::Connecting(connecting), attempt, plain, target })
    }

    fn begin_attempt(&self, attempts_before: u32) -> io::Result<(PendingConnection, DialAttempt)> {
        let address = self.host.address();
        let connecting = PendingConnection::begin_prepared(address, &self.binding, |socket| {
            // A stream cannot be begun anew where the path's MTU becomes less.
            tcp::limit_segments(socket)?;
            match &self.congestion_control {
                Some(name) => {
                    congestion::set(socket, name).map_err(|error| io::Error::new(error.io_error().kind(), error))
                }
                None => Ok(()),
            }
        })?;
        let since = clock::monotonic();
        let attempt = DialAttempt { address, since, attempts_before, is_failure_recorded: false, is_unwatched: true };
        Ok((connecting, attempt))
    }

    /// What is to be said about a stream that is over; most ends are none of the user's concern.
    pub(crate) fn report_end(&self, target: &Target, ended: &StreamEndReason) -> Option<RelayReport> {
        match ended {
            StreamEndReason::Complete | StreamEndReason::Disconnected | StreamEndReason::Io(_) => None,
            StreamEndReason::Refused(refusal) => {
                Some(RelayReport::Refused { target: target.clone(), refusal: *refusal })
            }
            StreamEndReason::Timeout | StreamEndReason::NotAPeer(_) => Some(self.unreachable_report(ended)),
        }
    }

    /// What is to be said where a stream was not begun.
    pub(crate) fn unreachable_report(&self, ended: &StreamEndReason) -> RelayReport {
        let cause = match ended {
            // Either end may lose its patience first.
            StreamEndReason::Disconnected | StreamEndReason::Timeout => {
                "no answer: nothing listens there that knows this end's key".into()
            }
            ended => ended.to_string(),
        };
        RelayReport::Unreachable { address: self.host.address(), cause }
    }
}

impl DialingStream {
    /// The socket to wait for.
    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        match &self.state {
            DialState::Connecting(connecting) => connecting.socket(),
            DialState::AwaitingResponse { stream, .. } => Some(stream),
            DialState::Done => None,
        }
    }

    /// Goes on. Returns the connection to the far end, which is asked for the target, once there is one.
    pub(crate) fn advance(&mut self, near: &mut NearEnd) -> Result<Option<SealedStream>, StreamEndReason> {
        if let DialState::Connecting(connecting) = &mut self.state {
            match connecting.wait(Time::ZERO) {
                Ok(Some(stream)) => self.state = begin_stream(stream, near)?,
                outcome => {
                    self.try_next_address(outcome.err(), near)?;
                    return Ok(None);
                }
            }
        }
        let DialState::AwaitingResponse { stream, reader, .. } = &mut self.state else { return Ok(None) };
        let Some(answer) = read_handshake_record(stream, reader)? else { return Ok(None) };
        if self.begin_anew(&answer, near)? {
            return Ok(None);
        }
        let sealed = self.finish_handshake(&answer, near.rto)?;
        near.host.record_answer(self.attempt.address);
        Ok(Some(sealed))
    }

    /// Begins the stream once more where the far end says that this host's clock is behind.
    fn begin_anew(&mut self, answer: &[u8], near: &mut NearEnd) -> Result<bool, StreamEndReason> {
        let DialState::AwaitingResponse { stream, initiation, has_begun_anew, .. } = &mut self.state else {
            return Ok(false);
        };
        let behind = near.initiator.learn_timestamp(initiation, answer).filter(|_| !*has_begun_anew);
        let Some(behind) = behind else { return Ok(false) };
        if !mem::replace(&mut near.has_reported_clock, true) {
            tracing::warn!(
                "the clock of this host is {behind} behind the last stream that {} has had from it: \
             the stream is begun nevertheless, but set the clock (for example by NTP)",
                self.attempt.address
            );
        }
        **initiation = send_initiation(stream, near)?;
        *has_begun_anew = true;
        Ok(true)
    }

    /// Leaves an address that has refused, or does not answer, for another one that the far end has.
    fn try_next_address(&mut self, refusal: Option<io::Error>, near: &NearEnd) -> io::Result<()> {
        let now = clock::monotonic();
        let attempt = &mut self.attempt;
        if refusal.is_some() || now - attempt.since >= near.host.attempt_timeout() {
            attempt.record_failure(near, now);
        }
        if near.host.address() == attempt.address || attempt.attempts_before + 1 >= MAX_ATTEMPTS {
            return refusal.map_or(Ok(()), Err);
        }
        let (connecting, attempt) = near.begin_attempt(attempt.attempts_before + 1)?;
        (self.state, self.attempt) = (DialState::Connecting(connecting), attempt);
        Ok(())
    }

    /// The socket to wait for, once.
    pub(crate) fn take_unwatched_socket(&mut self) -> Option<&TcpStream> {
        mem::take(&mut self.attempt.is_unwatched).then(|| self.socket()).flatten()
    }

    /// Nothing that a peer would send has come from the address.
    pub(crate) fn record_failure(&mut self, near: &NearEnd) {
        self.attempt.record_failure(near, clock::monotonic());
    }

    fn finish_handshake(&mut self, response: &[u8], rto: RtoLimits) -> Result<SealedStream, StreamEndReason> {
        let DialState::AwaitingResponse { stream, reader, initiation: offer, .. } =
            mem::replace(&mut self.state, DialState::Done)
        else {
            return Err(StreamEndReason::Disconnected);
        };
        let channel = offer.finish(response).map_err(|refused| match refused {
            RefusedDatagram::Forged => {
                StreamEndReason::NotAPeer("its answer is not authentic; is the preshared key the same?".into())
            }
            _ => StreamEndReason::from_non_peer_bytes(response),
        })?;
        let mut sealed = SealedStream::new(stream, channel, reader, rto)?;
        sealed.queue_message(&Message::Open(self.target.clone()))?;
        Ok(sealed)
    }
}

impl DialAttempt {
    fn record_failure(&mut self, near: &NearEnd, now: Time) {
        if !mem::replace(&mut self.is_failure_recorded, true) {
            near.host.record_failure(self.address, now);
        }
    }
}

fn begin_stream(stream: TcpStream, near: &mut NearEnd) -> Result<DialState, StreamEndReason> {
    plain::set_socket_options(&stream)?;
    let initiation = Box::new(send_initiation(&stream, near)?);
    Ok(DialState::AwaitingResponse { stream, reader: RecordReader::new(), initiation, has_begun_anew: false })
}

fn send_initiation(mut stream: &TcpStream, near: &mut NearEnd) -> Result<PendingStream, StreamEndReason> {
    let (pending, initiation) = near.initiator.begin(clock::realtime(), &mut near.random)?;
    // The send buffer of a new connection takes it.
    stream.write_all(&initiation)?;
    Ok(pending)
}

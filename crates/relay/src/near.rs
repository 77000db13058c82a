use crate::message::Message;
use crate::plain;
use crate::report::RelayReport;
use crate::sealed::{SealedStream, read_handshake_record};
use crate::stream_end::StreamEndReason;
use crate::target::Target;
use kumade_net::tcp::{PendingConnection, RtoLimits};
use kumade_net::{SocketBinding, clock, congestion};
use kumade_noise_session::RefusedDatagram;
use kumade_noise_session::channel::{PendingStream, StreamInitiator};
use kumade_noise_session::stream::RecordReader;
use kumade_units::Time;
use rand::rngs::StdRng;
use std::io::{self, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};

/// The near end: begins a stream for each connection that a local program opens.
pub(crate) struct NearEnd {
    pub(crate) address: SocketAddr,
    pub(crate) binding: SocketBinding,
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
    pub(crate) plain: TcpStream,
    pub(crate) target: Target,
}

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
        let connecting =
            PendingConnection::begin_prepared(self.address, &self.binding, |socket| match &self.congestion_control {
                Some(name) => {
                    congestion::set(socket, name).map_err(|error| io::Error::new(error.io_error().kind(), error))
                }
                None => Ok(()),
            })?;
        Ok(DialingStream { state: DialState::Connecting(connecting), plain, target })
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
        RelayReport::Unreachable { address: self.address, cause }
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
            let Some(stream) = connecting.wait(Time::ZERO)? else { return Ok(None) };
            self.state = begin_stream(stream, near)?;
        }
        let DialState::AwaitingResponse { stream, reader, .. } = &mut self.state else { return Ok(None) };
        let Some(answer) = read_handshake_record(stream, reader)? else { return Ok(None) };
        if self.begin_anew(&answer, near)? { Ok(None) } else { self.finish_handshake(&answer, near.rto).map(Some) }
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
                near.address
            );
        }
        **initiation = send_initiation(stream, near)?;
        *has_begun_anew = true;
        Ok(true)
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

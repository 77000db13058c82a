use crate::ended::Ended;
use crate::message::Message;
use crate::plain;
use crate::report::Report;
use crate::sealed::{Sealed, read_greeting};
use crate::target::Target;
use kumade_net::tcp::{Connecting, RtoLimits};
use kumade_net::{Binding, clock, congestion};
use kumade_noise_session::Refused;
use kumade_noise_session::channel::{Initiator, Offer};
use kumade_noise_session::stream::RecordReader;
use kumade_units::Time;
use rand::rngs::StdRng;
use std::io::{self, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};

/// The near end: begins a stream for each connection that a local program opens.
pub(crate) struct Near {
    pub(crate) address: SocketAddr,
    pub(crate) initiator: Initiator,
    pub(crate) random: StdRng,
    pub(crate) congestion_control: Option<String>,
    pub(crate) rto: RtoLimits,
}

/// A stream that is being begun.
pub(crate) struct Dialing {
    state: State,
    pub(crate) plain: TcpStream,
    pub(crate) target: Target,
}

enum State {
    Connecting(Connecting),
    /// The far end has been sent an initiation.
    Greeted {
        stream: TcpStream,
        reader: RecordReader,
        offer: Box<Offer>,
    },
    /// Over, for better or worse.
    Done,
}

impl Near {
    pub(crate) fn dial(&self, plain: TcpStream, target: Target) -> io::Result<Dialing> {
        let connecting =
            Connecting::begin_prepared(self.address, &Binding::default(), |socket| match &self.congestion_control {
                Some(name) => congestion::set(socket, name).map_err(|error| io::Error::new(error.io().kind(), error)),
                None => Ok(()),
            })?;
        Ok(Dialing { state: State::Connecting(connecting), plain, target })
    }

    /// What is to be said about a stream that is over; most ends are none of the user's concern.
    pub(crate) fn report(&self, target: &Target, ended: &Ended) -> Option<Report> {
        match ended {
            Ended::Complete | Ended::Cut | Ended::Io(_) => None,
            Ended::Refused(refusal) => Some(Report::Refused { target: target.clone(), refusal: *refusal }),
            Ended::Timeout | Ended::NotAPeer(_) => Some(self.unreachable(ended)),
        }
    }

    /// What is to be said where a stream was not begun.
    pub(crate) fn unreachable(&self, ended: &Ended) -> Report {
        let cause = match ended {
            // Either end may lose its patience first.
            Ended::Cut | Ended::Timeout => "no answer: nothing listens there that knows this end's key".into(),
            ended => ended.to_string(),
        };
        Report::Unreachable { address: self.address, cause }
    }
}

impl Dialing {
    /// The socket to wait for.
    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        match &self.state {
            State::Connecting(connecting) => connecting.socket(),
            State::Greeted { stream, .. } => Some(stream),
            State::Done => None,
        }
    }

    /// Goes on. Returns the connection to the far end, which is asked for the target, once there is one.
    pub(crate) fn advance(&mut self, near: &mut Near) -> Result<Option<Sealed>, Ended> {
        if let State::Connecting(connecting) = &mut self.state {
            let Some(stream) = connecting.wait(Time::ZERO)? else { return Ok(None) };
            self.state = greet(stream, near)?;
        }
        let State::Greeted { stream, reader, .. } = &mut self.state else { return Ok(None) };
        match read_greeting(stream, reader)? {
            Some(response) => self.finish(&response, near.rto).map(Some),
            None => Ok(None),
        }
    }

    fn finish(&mut self, response: &[u8], rto: RtoLimits) -> Result<Sealed, Ended> {
        let State::Greeted { stream, reader, offer } = mem::replace(&mut self.state, State::Done) else {
            return Err(Ended::Cut);
        };
        let channel = offer.finish(response).map_err(|refused| match refused {
            Refused::Forged => Ended::NotAPeer("its answer is not authentic; is the preshared key the same?".into()),
            _ => Ended::not_a_peer(response),
        })?;
        let mut sealed = Sealed::new(stream, channel, reader, rto)?;
        sealed.push(&Message::Open(self.target.clone()))?;
        Ok(sealed)
    }
}

fn greet(mut stream: TcpStream, near: &mut Near) -> Result<State, Ended> {
    plain::tend(&stream)?;
    let (offer, initiation) = near.initiator.begin(clock::realtime(), &mut near.random)?;
    // The send buffer of a new connection takes it.
    stream.write_all(&initiation)?;
    Ok(State::Greeted { stream, reader: RecordReader::new(), offer: Box::new(offer) })
}

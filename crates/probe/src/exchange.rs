//! One train: sent at one end, received at the other; both records are merged here.

use crate::error::Error;
use crate::peer::Peer;
use measurement::{CarriedTrain, SendRequest};
use net::clock;
use std::iter;
use std::thread;
use std::time::Duration;
use train::{PacketRecord, Train, TrainRecord};
use transport::{Probes, ReceivedTrain, SEND_SLACK, STAMP_WAIT, SentTrain, StampSource, within};
use units::{Direction, Span, Time};
use wire::{Arrival, ClientMessage, Departure, ServerMessage};

/// From the announcement of a train to its first packet, so that they don't share a queue.
const AFTER_ANNOUNCEMENT: Duration = Duration::from_millis(1);
/// Timeout of the server's answer, beyond the train's own time.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);
const DOING: &str = "measuring";

/// Carries train `number`.
pub(crate) fn exchange(
    peer: &mut Peer,
    probes: &mut Probes,
    number: u32,
    request: &SendRequest,
) -> Result<CarriedTrain, Error> {
    let SendRequest { direction, train, timeout, .. } = request;
    let (sent, received, ended) = match direction {
        Direction::Up => send_up(peer, probes, number, train, *timeout)?,
        Direction::Down => fetch_down(peer, probes, number, train, *timeout)?,
    };
    let broken = sent.is_none() || received.is_none();
    let kernel = StampSource::Kernel;
    let sent = sent.unwrap_or(SentTrain { departures: Vec::new(), submitted: Vec::new(), source: kernel });
    let received = received.unwrap_or(ReceivedTrain { arrivals: Vec::new(), source: kernel });
    Ok(CarriedTrain {
        record: merge(train, &sent, &received.arrivals),
        packets: sent.departures.len() as u64,
        bytes: sent.departures.iter().map(|d| u64::from(d.size)).sum(),
        ended,
        unstamped: received
            .arrivals
            .iter()
            .filter(|arrival| arrival.received.is_none())
            .map(|arrival| arrival.index)
            .collect(),
        kernel_stamps: sent.source != StampSource::User && received.source != StampSource::User,
        held_back: sent.source == StampSource::Queue,
        broken,
        connections: probes.connections(),
    })
}

/// The record of each end, with the source of its time stamps as far as the protocol tells it, and when the train ended; none if
/// its sockets failed.
type Parts = (Option<SentTrain>, Option<ReceivedTrain>, Time);

fn send_up(peer: &mut Peer, probes: &mut Probes, number: u32, train: &Train, timeout: Span) -> Result<Parts, Error> {
    peer.tell(&ClientMessage::Receive { number, train: train.clone(), timeout }, DOING)?;
    thread::sleep(AFTER_ANNOUNCEMENT);
    let began = clock::monotonic();
    let sent = probes.send(number, train);
    let ended = began + train.duration();
    let deadline = ended.max(clock::monotonic()) + timeout + ANSWER_TIMEOUT;
    let received = match peer.hear(deadline, DOING)? {
        ServerMessage::Received { number: n, arrivals, kernel_stamps } if n == number => {
            Some(ReceivedTrain { arrivals, source: source(kernel_stamps) })
        }
        ServerMessage::Failed { number: n, reason } if n == number => {
            tracing::debug!("the server could not receive train {number}: {reason}");
            None
        }
        _ => return Err(peer.unexpected(DOING)),
    };
    Ok((survived(peer, number, sent)?, received, ended))
}

fn fetch_down(peer: &mut Peer, probes: &mut Probes, number: u32, train: &Train, timeout: Span) -> Result<Parts, Error> {
    peer.tell(&ClientMessage::Send { number, train: train.clone() }, DOING)?;
    let received = probes.receive(number, train, timeout + peer.round_trip);
    let ended = clock::monotonic();
    let mut heard = peer.hear(within(SEND_SLACK + STAMP_WAIT + ANSWER_TIMEOUT), DOING)?;
    let held_back = heard == ServerMessage::HeldBack { number };
    if held_back {
        heard = peer.hear(within(ANSWER_TIMEOUT), DOING)?;
    }
    let mut submissions = Vec::new();
    if let ServerMessage::Submitted { number: n, earlier } = &heard
        && *n == number
    {
        submissions.clone_from(earlier);
        heard = peer.hear(within(ANSWER_TIMEOUT), DOING)?;
    }
    let sent = match heard {
        ServerMessage::Sent { number: n, departures, kernel_stamps } if n == number => {
            let source = if held_back { StampSource::Queue } else { source(kernel_stamps) };
            let submitted = submitted(&departures, &submissions);
            Some(SentTrain { departures, submitted, source })
        }
        ServerMessage::Failed { number: n, reason } if n == number => {
            tracing::debug!("the server could not send train {number}: {reason}");
            None
        }
        _ => return Err(peer.unexpected(DOING)),
    };
    Ok((sent, survived(peer, number, received)?, ended))
}

/// Broken sockets can be replaced, which gives none; a plan that the transport can't carry is an error.
fn survived<T>(peer: &Peer, number: u32, result: Result<T, transport::Error>) -> Result<Option<T>, Error> {
    use transport::Error::{Plan, TooManyPerConnection};
    match result {
        Ok(part) => Ok(Some(part)),
        Err(cause @ (Plan(_) | TooManyPerConnection { .. })) => Err(Error::Transport { address: peer.address, cause }),
        Err(error) => {
            tracing::debug!("could not transfer train {number}: {error}");
            Ok(None)
        }
    }
}

/// The peer's, unless its own interface held packets back.
fn source(kernel_stamps: bool) -> StampSource {
    if kernel_stamps { StampSource::Kernel } else { StampSource::User }
}

/// When each was given to the peer's kernel, from by how much earlier that was than it was sent.
fn submitted(departures: &[Departure], earlier: &[Span]) -> Vec<Option<Time>> {
    let earlier = earlier.iter().copied().map(Some).chain(iter::repeat(None));
    let at = |(departure, earlier): (&Departure, Option<Span>)| Some(departure.sent? - earlier?.max(Span::ZERO));
    departures.iter().zip(earlier).map(at).collect()
}

/// Merges both ends' records in the order of the plan. Records of packets that were not planned are ignored.
fn merge(train: &Train, sent: &SentTrain, arrivals: &[Arrival]) -> TrainRecord {
    let planned = train.packets().map(|p| PacketRecord { size: p.size, sent: None, submitted: None, received: None });
    let mut packets: Vec<_> = planned.collect();
    for (departure, submitted) in sent.departures.iter().zip(&sent.submitted) {
        if let Some(packet) = packets.get_mut(departure.index as usize) {
            (packet.size, packet.sent, packet.submitted) = (departure.size, departure.sent, *submitted);
        }
    }
    for arrival in arrivals {
        if let Some(packet) = packets.get_mut(arrival.index as usize) {
            packet.received = arrival.received;
        }
    }
    TrainRecord { packets }
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::Segment;

    #[test]
    fn parts_are_put_together_by_their_place_in_the_plan() {
        let train =
            Train { segments: vec![Segment { count: 3, interval: Span::ZERO, first_size: 40, size_step: 100 }] };
        let at = |nanos| Some(Time::from_nanos(nanos));
        let departures =
            [Departure { index: 0, size: 52, sent: at(5) }, Departure { index: 2, size: 240, sent: at(7) }];
        let submitted = submitted(&departures, &[Span::from_nanos(3)]);
        assert_eq!(submitted, [at(2), None]);
        let sent = SentTrain { departures: departures.to_vec(), submitted, source: StampSource::Kernel };
        let arrivals = [Arrival { index: 2, received: at(9) }, Arrival { index: 77, received: at(1) }];
        let expected = [
            PacketRecord { size: 52, sent: at(5), submitted: at(2), received: None },
            PacketRecord { size: 140, sent: None, submitted: None, received: None },
            PacketRecord { size: 240, sent: at(7), submitted: None, received: at(9) },
        ];
        assert_eq!(merge(&train, &sent, &arrivals).packets, expected);
    }
}

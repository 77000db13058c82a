//! One train: sent at one end, received at the other; both records are merged here.

use crate::error::Error;
use crate::server_connection::ServerConnection;
use kumade_measurement::{DeliveredTrain, SendRequest};
use kumade_net::clock;
use kumade_net::platform::pacing;
use kumade_probe_train::{PacketRecord, Train, TrainRecord};
use kumade_transport::{Probes, ReceivedTrain, SEND_SLACK, STAMP_WAIT, SentTrain, StampSource};
use kumade_units::{Direction, Rate, Span, Time};
use kumade_wire::{Arrival, ClientMessage, Departure, ServerMessage};
use std::iter;

/// From the announcement of a train to its first packet at least, so that they don't share a queue …
const MIN_ANNOUNCEMENT_DELAY: Span = Span::from_millis(1);
/// … and as long as it takes to pass so many times, for a token bucket to hold again what it took, …
const ANNOUNCEMENT_TRANSMISSION_TIMES: f64 = 2.0;
/// … but no longer than this.
const MAX_ANNOUNCEMENT_DELAY: Span = Span::from_millis(500);
/// What IP, TCP and the encryption add to an announcement, in bytes.
const ANNOUNCEMENT_OVERHEAD_BYTES: usize = 100;
/// Timeout of the server's answer, beyond the train's own time.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);
const OPERATION: &str = "measuring";

/// Carries train `number`.
pub(crate) fn exchange_train(
    peer: &mut ServerConnection,
    probes: &mut Probes,
    number: u32,
    request: &SendRequest,
) -> Result<DeliveredTrain, Error> {
    let SendRequest { direction, train, timeout, .. } = request;
    let (sent, received, ended) = match direction {
        Direction::Up => send_upstream(peer, probes, number, train, *timeout)?,
        Direction::Down => receive_downstream(peer, probes, number, train, *timeout)?,
    };
    let broken = sent.is_none() || received.is_none();
    let kernel = StampSource::Kernel;
    let sent = sent.unwrap_or(SentTrain { departures: Vec::new(), submitted: Vec::new(), stamp_source: kernel });
    let received = received.unwrap_or(ReceivedTrain { arrivals: Vec::new(), stamp_source: kernel });
    let record = merge_train_record(train, &sent, &received.arrivals);
    if *direction == Direction::Up {
        peer.max_upstream_rate = peer.max_upstream_rate.max(arrival_rate(&record));
    }
    Ok(DeliveredTrain {
        record,
        packets: sent.departures.len() as u64,
        bytes: sent.departures.iter().map(|d| u64::from(d.size)).sum(),
        ended,
        unstamped_packets: received
            .arrivals
            .iter()
            .filter(|arrival| arrival.received.is_none())
            .map(|arrival| arrival.index)
            .collect(),
        has_kernel_stamps: sent.stamp_source != StampSource::User && received.stamp_source != StampSource::User,
        is_held_back: sent.stamp_source == StampSource::Queue,
        is_broken: broken,
        connections: probes.connections(),
    })
}

/// The record of each end, with the source of its time stamps as far as the protocol tells it, and when the train ended; none if
/// its sockets failed.
type TrainEndRecords = (Option<SentTrain>, Option<ReceivedTrain>, Time);

fn send_upstream(
    peer: &mut ServerConnection,
    probes: &mut Probes,
    number: u32,
    train: &Train,
    timeout: Span,
) -> Result<TrainEndRecords, Error> {
    let announcement = ClientMessage::Receive { number, train: train.clone(), timeout };
    peer.send(&announcement, OPERATION)?;
    pacing::sleep_until(clock::monotonic() + announcement_delay(&announcement, peer.max_upstream_rate));
    let began = clock::monotonic();
    let sent = probes.send(number, train);
    let ended = began + train.duration();
    let left = (ended - clock::monotonic()).max(Span::ZERO);
    let received = match peer.receive(peer.answer_deadline(left + timeout + ANSWER_TIMEOUT), OPERATION)? {
        ServerMessage::Received { number: n, arrivals, kernel_stamps } if n == number => {
            Some(ReceivedTrain { arrivals, stamp_source: stamp_source(kernel_stamps) })
        }
        ServerMessage::Failed { number: n, reason } if n == number => {
            tracing::debug!("the server could not receive train {number}: {reason}");
            None
        }
        _ => return Err(peer.protocol_violation(OPERATION)),
    };
    Ok((tolerate_path_failure(peer, number, sent)?, received, ended))
}

/// How long after an announcement the train may begin, where trains have arrived at this rate at most.
pub(crate) fn announcement_delay(announcement: &ClientMessage, fastest: Option<Rate>) -> Span {
    let mut frame = Vec::new();
    // One that is too long has been refused before.
    let _ = kumade_wire::encode(announcement, &mut frame);
    let bytes = (frame.len() + ANNOUNCEMENT_OVERHEAD_BYTES) as f64 * ANNOUNCEMENT_TRANSMISSION_TIMES;
    let passing = fastest.map_or(Span::ZERO, |rate| rate.time_for(bytes as u64));
    passing.clamp(MIN_ANNOUNCEMENT_DELAY, MAX_ANNOUNCEMENT_DELAY)
}

/// The rate at which a train arrived; none of fewer than two packets, or of packets that came at once.
fn arrival_rate(record: &TrainRecord) -> Option<Rate> {
    let arrivals = || record.packets.iter().filter_map(|packet| Some((packet.received?, packet.size)));
    let (first, of_first) = arrivals().min()?;
    let (last, _) = arrivals().max()?;
    let bytes: u64 = arrivals().map(|(_, size)| u64::from(size)).sum();
    (last > first).then(|| Rate::from_bytes_over(bytes - u64::from(of_first), last - first))
}

fn receive_downstream(
    peer: &mut ServerConnection,
    probes: &mut Probes,
    number: u32,
    train: &Train,
    timeout: Span,
) -> Result<TrainEndRecords, Error> {
    peer.send(&ClientMessage::Send { number, train: train.clone() }, OPERATION)?;
    let received = probes.receive(number, train, timeout + peer.round_trip);
    let ended = clock::monotonic();
    let mut heard = peer.receive(peer.answer_deadline(SEND_SLACK + STAMP_WAIT + ANSWER_TIMEOUT), OPERATION)?;
    let held_back = heard == ServerMessage::QueuedLocally { number };
    if held_back {
        heard = peer.receive(peer.answer_deadline(ANSWER_TIMEOUT), OPERATION)?;
    }
    let mut submissions = Vec::new();
    if let ServerMessage::Submitted { number: n, submitted_before_sent: earlier } = &heard
        && *n == number
    {
        submissions.clone_from(earlier);
        heard = peer.receive(peer.answer_deadline(ANSWER_TIMEOUT), OPERATION)?;
    }
    let sent = match heard {
        ServerMessage::Sent { number: n, departures, kernel_stamps } if n == number => {
            let source = if held_back { StampSource::Queue } else { stamp_source(kernel_stamps) };
            let submitted = submission_times(&departures, &submissions);
            Some(SentTrain { departures, submitted, stamp_source: source })
        }
        ServerMessage::Failed { number: n, reason } if n == number => {
            tracing::debug!("the server could not send train {number}: {reason}");
            None
        }
        _ => return Err(peer.protocol_violation(OPERATION)),
    };
    Ok((sent, tolerate_path_failure(peer, number, received)?, ended))
}

/// Broken sockets can be replaced, which gives none; a plan that the transport can't carry is an error.
fn tolerate_path_failure<T>(
    peer: &ServerConnection,
    number: u32,
    result: Result<T, kumade_transport::Error>,
) -> Result<Option<T>, Error> {
    use kumade_transport::Error::{Plan, TooManyPerConnection};
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
fn stamp_source(kernel_stamps: bool) -> StampSource {
    if kernel_stamps { StampSource::Kernel } else { StampSource::User }
}

/// When each was given to the peer's kernel, from by how much earlier that was than it was sent.
fn submission_times(departures: &[Departure], earlier: &[Span]) -> Vec<Option<Time>> {
    let earlier = earlier.iter().copied().map(Some).chain(iter::repeat(None));
    let at = |(departure, earlier): (&Departure, Option<Span>)| Some(departure.sent? - earlier?.max(Span::ZERO));
    departures.iter().zip(earlier).map(at).collect()
}

/// Merges both ends' records in the order of the plan. Records of packets that were not planned are ignored.
fn merge_train_record(train: &Train, sent: &SentTrain, arrivals: &[Arrival]) -> TrainRecord {
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
    use kumade_probe_train::Segment;

    #[test]
    fn parts_are_put_together_by_their_place_in_the_plan() {
        let train =
            Train { segments: vec![Segment { count: 3, interval: Span::ZERO, first_size: 40, size_step: 100 }] };
        let at = |nanos| Some(Time::from_nanos(nanos));
        let departures =
            [Departure { index: 0, size: 52, sent: at(5) }, Departure { index: 2, size: 240, sent: at(7) }];
        let submitted = submission_times(&departures, &[Span::from_nanos(3)]);
        assert_eq!(submitted, [at(2), None]);
        let sent = SentTrain { departures: departures.to_vec(), submitted, stamp_source: StampSource::Kernel };
        let arrivals = [Arrival { index: 2, received: at(9) }, Arrival { index: 77, received: at(1) }];
        let expected = [
            PacketRecord { size: 52, sent: at(5), submitted: at(2), received: None },
            PacketRecord { size: 140, sent: None, submitted: None, received: None },
            PacketRecord { size: 240, sent: at(7), submitted: None, received: at(9) },
        ];
        assert_eq!(merge_train_record(&train, &sent, &arrivals).packets, expected);
    }

    #[test]
    fn on_a_slow_path_a_train_waits_until_its_announcement_has_passed() {
        let at = |micros: Option<i64>| micros.map(|micros| Time::ZERO + Span::from_micros(micros));
        let packet = |micros| PacketRecord { size: 1500, sent: None, submitted: None, received: at(micros) };
        // 1 Mbit/s; one was overtaken, and one was lost.
        let arrivals = [Some(12_000), Some(0), None, Some(36_000), Some(24_000)].map(packet);
        let rate = arrival_rate(&TrainRecord { packets: arrivals.to_vec() });
        assert_eq!(rate, Some(Rate::from_mbit(1)));
        assert_eq!(arrival_rate(&TrainRecord { packets: vec![packet(Some(0)); 3] }), None);
        let segment = Segment { count: 3, interval: Span::from_millis(2), first_size: 1500, size_step: 0 };
        let of_segments = |count| ClientMessage::Receive {
            number: 9,
            train: Train { segments: vec![segment; count] },
            timeout: Span::from_secs(1),
        };
        let [few, many] = [1, 60].map(|count| announcement_delay(&of_segments(count), rate));
        assert!(few > Span::from_micros(1600) && many > few * 3 && many < Span::from_millis(20), "{few}, {many}");
        assert_eq!(announcement_delay(&of_segments(60), None), MIN_ANNOUNCEMENT_DELAY);
        assert_eq!(announcement_delay(&of_segments(60), Some(Rate::from_mbit(100))), MIN_ANNOUNCEMENT_DELAY);
        assert_eq!(announcement_delay(&of_segments(60), Some(Rate::from_bits_per_second(1))), MAX_ANNOUNCEMENT_DELAY);
    }
}

//! The exchange of trains whose packets have a DSCP and ECN codepoint each.

use crate::error::Error;
use crate::exchange::announcement_delay;
use crate::path::failure_reason;
use crate::server_connection::ServerConnection;
use kumade_measurement::DsFieldRequest;
use kumade_net::clock;
use kumade_net::platform::pacing;
use kumade_probe_train::{DsFieldArrival, DsFieldRecord, DsFieldTrain};
use kumade_transport::{Probes, SEND_SLACK, STAMP_WAIT, UdpProbes};
use kumade_units::{Direction, Span};
use kumade_wire::{ClientMessage, Departure, ServerMessage, Version};

/// Timeout of the server's answer, beyond the train's own time.
const ANSWER_TIMEOUT: Span = Span::from_secs(2);
const OPERATION: &str = "looking at what queues do to marks";

/// What each end has recorded; the inner error is the reason why there is nothing.
type EndRecords = Result<(Vec<Departure>, Vec<DsFieldArrival>), String>;

/// Carries such a train with this number. The inner error is the reason why that is not possible.
pub(crate) fn exchange_ds_fields(
    peer: &mut ServerConnection,
    probes: Option<&mut Probes>,
    number: u32,
    request: &DsFieldRequest,
) -> Result<Result<DsFieldRecord, String>, Error> {
    if let Err(why) = peer.require_version(Version::DS_FIELDS, "trains with a DSCP and ECN codepoint of each packet") {
        return Ok(Err(why));
    }
    let Some(Probes::Udp(probes)) = probes else { return Ok(Err("UDP is not open".to_owned())) };
    let DsFieldRequest { direction, train, timeout, .. } = request;
    let records = match direction {
        Direction::Up => send_upstream(peer, probes, number, train, *timeout)?,
        Direction::Down => receive_downstream(peer, probes, number, train, *timeout)?,
    };
    Ok(records.map(|(departures, arrivals)| {
        let sent = departures.iter().filter_map(|departure| Some((departure.index, departure.sent?)));
        DsFieldRecord::new(train.ds_fields.len(), sent, &arrivals)
    }))
}

fn send_upstream(
    peer: &mut ServerConnection,
    probes: &mut UdpProbes,
    number: u32,
    train: &DsFieldTrain,
    timeout: Span,
) -> Result<EndRecords, Error> {
    let announcement = ClientMessage::ReceiveDsFields { number, train: train.clone(), timeout };
    peer.send(&announcement, OPERATION)?;
    pacing::sleep_until(clock::monotonic() + announcement_delay(&announcement, peer.max_upstream_rate));
    let planned_end = clock::monotonic() + train.train.duration();
    let sent = probes.send_ds_fields(number, train);
    let left = (planned_end - clock::monotonic()).max(Span::ZERO);
    match peer.receive(peer.answer_deadline(left + timeout + ANSWER_TIMEOUT), OPERATION)? {
        ServerMessage::ReceivedDsFields { number: n, arrivals } if n == number => {
            Ok(sent.map(|departures| (departures, arrivals)).map_err(|error| error.to_string()))
        }
        other => failure_reason(peer, number, &other, OPERATION).map(Err),
    }
}

fn receive_downstream(
    peer: &mut ServerConnection,
    probes: &mut UdpProbes,
    number: u32,
    train: &DsFieldTrain,
    timeout: Span,
) -> Result<EndRecords, Error> {
    peer.send(&ClientMessage::SendDsFields { number, train: train.clone() }, OPERATION)?;
    let arrivals = probes.receive_ds_fields(number, train, timeout + peer.round_trip);
    match peer.receive(peer.answer_deadline(SEND_SLACK + STAMP_WAIT + ANSWER_TIMEOUT), OPERATION)? {
        ServerMessage::SentDsFields { number: n, departures } if n == number => {
            Ok(arrivals.map(|arrivals| (departures, arrivals)).map_err(|error| error.to_string()))
        }
        other => failure_reason(peer, number, &other, OPERATION).map(Err),
    }
}

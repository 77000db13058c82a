//! What the far end does about its connections.

use crate::entries::{RelayEntries, RelayEntry};
use crate::far::{AcceptedStream, FarEnd, OpenFailure, OpeningStream, UnauthenticatedConnection};
use crate::message::{ConnectRefusal, Message};
use crate::plain::{self, PlainStream};
use crate::relayed_stream::RelayedStream;
use crate::report::RelayReport;
use crate::resolver::ResolvedAddresses;
use crate::slot::{ConnectionSlot, closing};
use crate::stream_end::StreamEndReason;
use crate::target::Target;
use kumade_noise_session::PublicKey;
use std::io;
use std::net::TcpStream;

/// Connections of one peer.
const MAX_CONNECTIONS_PER_PEER: usize = 1024;
/// So many who have not shown to be a peer are waited for; for a further one, the oldest of the network with most of them is
/// left.
const MAX_UNAUTHENTICATED_CONNECTIONS: usize = 256;
/// Programs open several at once, and their host is not to be the busiest network among strangers of many.
const TOLERATED_UNAUTHENTICATED_PER_NETWORK: usize = 8;

/// Somebody has connected.
pub(crate) fn accept_connection(entries: &mut RelayEntries, stream: TcpStream) {
    make_room(entries);
    if let Ok(stranger) = prepare_connection(stream) {
        entries.add_connection(ConnectionSlot::Unauthenticated(stranger));
    }
}

/// Another part of the program has accepted a connection and read this initiation from it.
pub(crate) fn add_accepted(far: &mut FarEnd, entries: &mut RelayEntries, stream: TcpStream, initiation: &[u8]) {
    make_room(entries);
    let number = entries.new_number();
    let Ok(mut stranger) = prepare_connection(stream) else { return };
    if entries.epoll_set.add_edge_triggered(&stranger.stream, number).is_ok() {
        let accepted = stranger.accept_initiation(initiation.to_vec(), far);
        entries.replace_stage(number, ConnectionSlot::Unauthenticated(stranger), None);
        record_handshake(far, entries, number, accepted);
    }
}

fn prepare_connection(stream: TcpStream) -> io::Result<UnauthenticatedConnection> {
    plain::set_socket_options(&stream)?;
    UnauthenticatedConnection::new(stream)
}

fn make_room(entries: &mut RelayEntries) {
    if entries.unauthenticated().len() >= MAX_UNAUTHENTICATED_CONNECTIONS {
        let left = entries
            .unauthenticated()
            .next_to_give_way(TOLERATED_UNAUTHENTICATED_PER_NETWORK)
            .map(|(_, number)| *number);
        left.map(|number| entries.remove(number));
    }
}

/// Goes on with a connection that has not shown to be a peer's.
pub(crate) fn advance_unauthenticated(far: &mut FarEnd, entries: &mut RelayEntries, number: u32) {
    let Some(RelayEntry { stage: ConnectionSlot::Unauthenticated(stranger), .. }) = entries.get_mut(number) else {
        return;
    };
    let outcome = stranger.advance(far);
    record_handshake(far, entries, number, outcome);
}

fn record_handshake(
    far: &FarEnd,
    entries: &mut RelayEntries,
    number: u32,
    outcome: Result<Option<AcceptedStream>, StreamEndReason>,
) {
    if let Ok(None) = outcome {
        return;
    }
    let Some(RelayEntry { stage: ConnectionSlot::Unauthenticated(stranger), deadline, .. }) = entries.remove(number)
    else {
        return;
    };
    match outcome {
        Ok(None) => {}
        Ok(Some(accepted)) => {
            let peer = accepted.peer;
            let is_full =
                entries.iter().filter(|(_, entry)| entry.peer == Some(peer)).count() >= MAX_CONNECTIONS_PER_PEER;
            if let Ok(opening) = stranger.into_opening(accepted, is_full, far.rto) {
                entries.replace_stage(number, ConnectionSlot::Opening(Box::new(opening)), Some(peer));
                entries.schedule(number);
            }
        }
        // Who sends anything else gets the same silence as who sends nothing.
        Err(StreamEndReason::NotAPeer(_)) => {
            entries.restore_entry(
                number,
                RelayEntry { stage: ConnectionSlot::Silent(stranger.stream, stranger.network), peer: None, deadline },
            );
        }
        Err(_) => {}
    }
}

/// Goes on with a stream of a peer whose target is not connected yet.
pub(crate) fn advance_opening(far: &mut FarEnd, entries: &mut RelayEntries, number: u32) {
    let RelayEntries { epoll_set: set, entries: all, .. } = entries;
    let Some(RelayEntry { stage: ConnectionSlot::Opening(opening), peer, .. }) = all.get_mut(&number) else { return };
    let peer = *peer;
    let outcome = opening.advance(number, far);
    let new = opening.take_unwatched_socket();
    let watched = new.map_or(Ok(()), |socket| set.add_edge_triggered(socket, number + 1)).map_err(OpenFailure::from);
    match (watched, outcome) {
        (Ok(()), Ok(None)) => {}
        (Ok(()), Ok(Some((plain, target)))) => drop(start_relaying(entries, number, peer, plain, target)),
        (Ok(()), Err(error)) | (Err(error), _) => refuse_stream(entries, number, peer, error),
    }
}

/// A name that a peer has asked for was looked up.
pub(crate) fn name_resolved(far: &mut FarEnd, entries: &mut RelayEntries, (number, addresses): ResolvedAddresses) {
    let Some(RelayEntry { stage: ConnectionSlot::Opening(opening), peer, .. }) = entries.get_mut(number) else {
        return;
    };
    let peer = *peer;
    match opening.connect_to_addresses(addresses, far) {
        Ok(()) => entries.schedule(number),
        Err(error) => refuse_stream(entries, number, peer, error),
    }
}

fn start_relaying(
    entries: &mut RelayEntries,
    number: u32,
    peer: Option<PublicKey>,
    plain: TcpStream,
    target: Target,
) -> io::Result<()> {
    let Some(RelayEntry { stage: ConnectionSlot::Opening(opening), .. }) = entries.remove(number) else {
        return Ok(());
    };
    let OpeningStream { sealed, protocol: exchange, .. } = *opening;
    let plain = PlainStream::new(plain)?;
    entries.relay(number, RelayedStream { plain, sealed, protocol: exchange, target, uncounted_bytes: (0, 0) }, peer);
    Ok(())
}

fn refuse_stream(entries: &mut RelayEntries, number: u32, peer: Option<PublicKey>, error: OpenFailure) {
    let Some(RelayEntry { stage: ConnectionSlot::Opening(mut opening), .. }) = entries.remove(number) else { return };
    let OpenFailure::Refused(target, refusal) = error else { return };
    let report =
        peer.filter(|_| refusal == ConnectRefusal::NotAllowed).map(|peer| RelayReport::NotAllowed { peer, target });
    entries.record_refusal(report);
    // A few bytes, which the send buffer takes.
    let is_told = opening.sealed.queue_message(&Message::Refused(refusal)).is_ok() && opening.sealed.flush().is_ok();
    if is_told {
        entries.replace_stage(number, closing(opening.sealed.stream), peer);
        entries.schedule(number);
    }
}

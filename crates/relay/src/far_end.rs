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
use kumade_units::Span;
use std::io;
use std::net::TcpStream;

/// Streams of one peer, whatever their state.
const MAX_STREAMS_PER_PEER: usize = 1024;
/// Of these, streams that were refused and whose peer may not have read that. Others of these give way for them, oldest
/// first. A near end has 1000 connections at most, so that it is told.
const MAX_REFUSED_STREAMS_PER_PEER: usize = 24;
/// A peer's streams beyond these have small buffers in the kernel until bytes pass.
const STREAMS_WITH_FULL_BUFFERS: usize = 64;
/// What is held for a peer, here and in the kernel, of bytes that somebody does not take: of the streams of a peer for which
/// more is held, those with most are reset. One stream has 6 MB in a direction at most (`tcp_rmem`), mostly far less.
const MAX_HELD_BYTES_PER_PEER: usize = 32 << 20;
/// Small buffers may grow while less than this is held.
const CALM_HELD_BYTES_PER_PEER: usize = 8 << 20;
/// What looking at one stream's buffers may cost of the time: some 2 µs are needed.
const CHECK_INTERVAL_PER_STREAM: Span = Span::from_micros(50);
/// The least interval in which they are looked at.
const MIN_CHECK_INTERVAL: Span = Span::from_millis(50);
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
            let (streams, refused) = (entries.streams_of_peer(&peer), refused_streams(entries, &peer));
            let open = streams.count() - refused.len();
            let Ok(opening) = stranger.into_opening(accepted, open >= STREAMS_WITH_FULL_BUFFERS, far.rto) else {
                return;
            };
            entries.replace_stage(number, ConnectionSlot::Opening(Box::new(opening)), Some(peer));
            if open < MAX_STREAMS_PER_PEER - MAX_REFUSED_STREAMS_PER_PEER {
                entries.schedule(number);
            } else {
                tell_refusal(entries, number, ConnectRefusal::TooManyConnections);
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

/// Ends streams of who is no peer any longer, all of them where the second key is another one, and those to what may be reached no
/// longer.
pub(crate) fn drop_refused_streams(far: &FarEnd, entries: &mut RelayEntries, has_other_psk: bool) {
    let is_refused = |entry: &RelayEntry| {
        let is_peer = entry.peer.is_none_or(|peer| !has_other_psk && far.peers.0.contains(&peer));
        let is_permitted = match &entry.stage {
            ConnectionSlot::Relayed(carried) => {
                far.permits_target(&carried.target, carried.plain.stream.peer_addr().ok())
            }
            ConnectionSlot::Opening(opening) => {
                opening.connecting_target().is_none_or(|target| far.permits_target(target, None))
            }
            _ => true,
        };
        !is_peer || !is_permitted
    };
    let refused = entries.iter().filter(|(_, entry)| is_refused(entry)).map(|(number, _)| number);
    let refused: Vec<_> = refused.collect();
    refused.into_iter().for_each(|number| drop(entries.discard(number)));
}

/// Those of a peer that were refused, oldest first.
fn refused_streams(entries: &RelayEntries, peer: &PublicKey) -> Vec<u32> {
    let is_refused = |entry: &RelayEntry| matches!(entry.stage, ConnectionSlot::Draining(_));
    entries.streams_of_peer(peer).filter(|(_, entry)| is_refused(entry)).map(|(number, _)| number).collect()
}

/// Goes on with a stream of which all has been sent.
pub(crate) fn advance_lingering(entries: &mut RelayEntries, number: u32) {
    let Some(entry) = entries.get_mut(number) else { return };
    let ConnectionSlot::Lingering(lingering) = &mut entry.stage else { return };
    if lingering.is_done() {
        entries.remove(number);
    } else if lingering.has_progressed() {
        entry.renew_deadline();
    }
}

/// Bounds what is held for each peer. Returns after how long to look again at the soonest: only what has come or was sent since is held besides,
/// and of either there is an event.
pub(crate) fn bound_held_bytes(entries: &mut RelayEntries) -> Span {
    let mut streams = 0;
    for peer in entries.peers() {
        let mut held: Vec<_> =
            entries.streams_of_peer(&peer).map(|(number, entry)| (entry.stage.held_bytes(), number)).collect();
        streams += held.len() as i64;
        let mut total: usize = held.iter().map(|(bytes, _)| bytes).sum();
        if total < CALM_HELD_BYTES_PER_PEER {
            held.iter().for_each(|(_, number)| entries.release_buffer_sizes(*number));
        }
        held.sort_unstable();
        let mut reset = 0;
        while let Some((bytes, number)) = held.pop().filter(|_| total > MAX_HELD_BYTES_PER_PEER) {
            entries.discard(number);
            total -= bytes;
            reset += 1;
        }
        if reset > 0 {
            entries.record_refusal(Some(RelayReport::TooMuchHeld { peer, streams: reset }));
        }
    }
    (CHECK_INTERVAL_PER_STREAM * streams).max(MIN_CHECK_INTERVAL)
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
    let OpeningStream { sealed, protocol, has_small_buffers, .. } = *opening;
    let plain = PlainStream::new(plain)?;
    let mut carried = RelayedStream::new(plain, sealed, protocol, target);
    carried.has_small_buffers = has_small_buffers;
    entries.relay(number, carried, peer);
    Ok(())
}

fn refuse_stream(entries: &mut RelayEntries, number: u32, peer: Option<PublicKey>, error: OpenFailure) {
    let OpenFailure::Refused(target, refusal) = error else {
        entries.discard(number);
        return;
    };
    let report =
        peer.filter(|_| refusal == ConnectRefusal::NotAllowed).map(|peer| RelayReport::NotAllowed { peer, target });
    entries.record_refusal(report);
    tell_refusal(entries, number, refusal);
}

fn tell_refusal(entries: &mut RelayEntries, number: u32, refusal: ConnectRefusal) {
    let Some(RelayEntry { stage: ConnectionSlot::Opening(mut opening), peer, .. }) = entries.remove(number) else {
        return;
    };
    // A few bytes, which the send buffer takes.
    let is_told = opening.sealed.queue_message(&Message::Refused(refusal)).is_ok() && opening.sealed.flush().is_ok();
    if !is_told {
        plain::reset_when_dropped(&opening.sealed.stream);
        return;
    }
    if let Some(peer) = peer {
        let refused = refused_streams(entries, &peer);
        let too_many = (refused.len() + 1).saturating_sub(MAX_REFUSED_STREAMS_PER_PEER);
        refused.into_iter().take(too_many).for_each(|oldest| drop(entries.discard(oldest)));
    }
    entries.replace_stage(number, closing(opening.sealed.stream), peer);
    entries.schedule(number);
}

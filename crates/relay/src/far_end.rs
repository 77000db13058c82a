//! What the far end does about its connections.

use crate::carried::Carried;
use crate::ended::Ended;
use crate::entries::{Entries, Entry};
use crate::far::{Accepted, Far, NotOpened, Opening, Stranger};
use crate::message::{Message, Refusal};
use crate::plain::{self, Plain};
use crate::report::Report;
use crate::resolver::Answer;
use crate::slot::{Slot, leaving};
use crate::target::Target;
use kumade_noise_session::PublicKey;
use std::io;
use std::net::TcpStream;

/// Connections of one peer.
const MAX_PER_PEER: usize = 1024;
/// So many who have not shown to be a peer are waited for; for a further one, the oldest of the network with most of them is
/// left.
const MAX_STRANGERS: usize = 256;
/// Programs open several at once, and their host is not to be the busiest network among strangers of many.
const PEERS_WORTH: usize = 8;

/// Somebody has connected.
pub(crate) fn greet(entries: &mut Entries, stream: TcpStream) {
    make_room(entries);
    if let Ok(stranger) = tended(stream) {
        entries.enter(Slot::Stranger(stranger));
    }
}

/// Another part of the program has accepted a connection and read this initiation from it.
pub(crate) fn take_over(far: &mut Far, entries: &mut Entries, stream: TcpStream, initiation: &[u8]) {
    make_room(entries);
    let number = entries.new_number();
    let Ok(stranger) = tended(stream) else { return };
    if entries.set.add_edges(&stranger.stream, number).is_ok() {
        let accepted = stranger.greeted(initiation, far);
        entries.put(number, Slot::Stranger(stranger), None);
        met(far, entries, number, accepted.map(Some));
    }
}

fn tended(stream: TcpStream) -> io::Result<Stranger> {
    plain::tend(&stream)?;
    Stranger::new(stream)
}

fn make_room(entries: &mut Entries) {
    if entries.strangers().len() >= MAX_STRANGERS {
        let left = entries.strangers().next_to_give_way(PEERS_WORTH).map(|(_, number)| *number);
        left.map(|number| entries.remove(number));
    }
}

/// Goes on with a connection that has not shown to be a peer's.
pub(crate) fn advance_stranger(far: &mut Far, entries: &mut Entries, number: u32) {
    let Some(Entry { slot: Slot::Stranger(stranger), .. }) = entries.get_mut(number) else { return };
    let outcome = stranger.advance(far);
    met(far, entries, number, outcome);
}

fn met(far: &Far, entries: &mut Entries, number: u32, outcome: Result<Option<Accepted>, Ended>) {
    if let Ok(None) = outcome {
        return;
    }
    let Some(Entry { slot: Slot::Stranger(stranger), deadline, .. }) = entries.remove(number) else { return };
    match outcome {
        Ok(None) => {}
        Ok(Some(accepted)) => {
            let peer = accepted.peer;
            let is_full = entries.iter().filter(|(_, entry)| entry.peer == Some(peer)).count() >= MAX_PER_PEER;
            if let Ok(opening) = stranger.opening(accepted, is_full, far.rto) {
                entries.put(number, Slot::Opening(Box::new(opening)), Some(peer));
                entries.look_at(number);
            }
        }
        // Who sends anything else gets the same silence as who sends nothing.
        Err(Ended::NotAPeer(_)) => {
            entries.put_back(
                number,
                Entry { slot: Slot::Silent(stranger.stream, stranger.network), peer: None, deadline },
            );
        }
        Err(_) => {}
    }
}

/// Goes on with a stream of a peer whose target is not connected yet.
pub(crate) fn advance_opening(far: &mut Far, entries: &mut Entries, number: u32) {
    let Entries { set, entries: all, .. } = entries;
    let Some(Entry { slot: Slot::Opening(opening), peer, .. }) = all.get_mut(&number) else { return };
    let peer = *peer;
    let outcome = opening.advance(number, far);
    let new = opening.new_socket();
    let watched = new.map_or(Ok(()), |socket| set.add_edges(socket, number + 1)).map_err(NotOpened::from);
    match (watched, outcome) {
        (Ok(()), Ok(None)) => {}
        (Ok(()), Ok(Some((plain, target)))) => drop(carry(entries, number, peer, plain, target)),
        (Ok(()), Err(error)) | (Err(error), _) => refuse(entries, number, peer, error),
    }
}

/// A name that a peer has asked for was looked up.
pub(crate) fn resolved(far: &mut Far, entries: &mut Entries, (number, addresses): Answer) {
    let Some(Entry { slot: Slot::Opening(opening), peer, .. }) = entries.get_mut(number) else { return };
    let peer = *peer;
    match opening.resolved(addresses, far) {
        Ok(()) => entries.look_at(number),
        Err(error) => refuse(entries, number, peer, error),
    }
}

fn carry(
    entries: &mut Entries,
    number: u32,
    peer: Option<PublicKey>,
    plain: TcpStream,
    target: Target,
) -> io::Result<()> {
    let Some(Entry { slot: Slot::Opening(opening), .. }) = entries.remove(number) else { return Ok(()) };
    let Opening { sealed, exchange, .. } = *opening;
    let plain = Plain::new(plain)?;
    entries.carry(number, Carried { plain, sealed, exchange, target, bytes: (0, 0) }, peer);
    Ok(())
}

fn refuse(entries: &mut Entries, number: u32, peer: Option<PublicKey>, error: NotOpened) {
    let Some(Entry { slot: Slot::Opening(mut opening), .. }) = entries.remove(number) else { return };
    let NotOpened::Refused(target, refusal) = error else { return };
    let report = peer.filter(|_| refusal == Refusal::NotAllowed).map(|peer| Report::NotAllowed { peer, target });
    entries.refuse(report);
    // A few bytes, which the send buffer takes.
    let is_told = opening.sealed.push(&Message::Refused(refusal)).is_ok() && opening.sealed.flush().is_ok();
    if is_told {
        entries.put(number, leaving(opening.sealed.stream), peer);
        entries.look_at(number);
    }
}

//! What the near end does about its connections.

use crate::entries::{RelayEntries, RelayEntry};
use crate::exchange::MessageExchange;
use crate::near::{DialingStream, NearEnd};
use crate::plain::{self, PlainStream};
use crate::relayed_stream::RelayedStream;
use crate::sealed::SealedStream;
use crate::slot::ConnectionSlot;
use crate::stream_end::StreamEndReason;
use crate::target::Target;
use std::net::TcpStream;

/// A local program has connected.
pub(crate) fn begin_stream(near: &NearEnd, entries: &mut RelayEntries, plain: TcpStream, target: Target) {
    plain::reset_when_dropped(&plain);
    match near.dial(plain, target) {
        Ok(mut dialing) => {
            // The entries see to that.
            dialing.take_unwatched_socket();
            entries.add_connection(ConnectionSlot::Dialing(dialing));
        }
        Err(error) => entries.record_refusal(Some(near.unreachable_report(&StreamEndReason::Io(error)))),
    }
}

/// Goes on with a connection to the far end.
pub(crate) fn advance_stream(near: &mut NearEnd, entries: &mut RelayEntries, number: u32) {
    let RelayEntries { epoll_set: set, entries: all, .. } = entries;
    let Some(RelayEntry { stage: ConnectionSlot::Dialing(dialing), .. }) = all.get_mut(&number) else { return };
    let outcome = dialing.advance(near);
    let new = dialing.take_unwatched_socket();
    let watched = new.map_or(Ok(()), |socket| set.add_edge_triggered(socket, number));
    let outcome = match (watched, outcome) {
        (Ok(()), Ok(None)) => return,
        (Ok(()), Ok(Some(sealed))) => start_relaying(entries, number, sealed),
        (Ok(()), Err(ended)) => {
            dialing.record_failure(near);
            Err(ended)
        }
        (Err(error), _) => Err(error.into()),
    };
    if let Err(ended) = outcome {
        entries.remove(number);
        entries.record_refusal(Some(near.unreachable_report(&ended)));
    }
}

fn start_relaying(entries: &mut RelayEntries, number: u32, sealed: SealedStream) -> Result<(), StreamEndReason> {
    let Some(RelayEntry { stage: ConnectionSlot::Dialing(DialingStream { plain, target, .. }), .. }) =
        entries.remove(number)
    else {
        return Ok(());
    };
    let plain = PlainStream::new(plain)?;
    entries.watch_plain(&plain.stream, number)?;
    entries.relay(number, RelayedStream::new(plain, sealed, MessageExchange::for_near_end(), target), None);
    Ok(())
}

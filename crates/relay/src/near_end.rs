//! What the near end does about its connections.

use crate::carried::Carried;
use crate::ended::Ended;
use crate::entries::{Entries, Entry};
use crate::exchange::Exchange;
use crate::near::{Dialing, Near};
use crate::plain::{self, Plain};
use crate::sealed::Sealed;
use crate::slot::Slot;
use crate::target::Target;
use std::net::TcpStream;

/// A local program has connected.
pub(crate) fn begin(near: &Near, entries: &mut Entries, plain: TcpStream, target: Target) {
    plain::reset_when_dropped(&plain);
    match near.dial(plain, target) {
        Ok(dialing) => entries.enter(Slot::Dialing(dialing)),
        Err(error) => entries.refuse(Some(near.unreachable(&Ended::Io(error)))),
    }
}

/// Goes on with a connection to the far end.
pub(crate) fn advance(near: &mut Near, entries: &mut Entries, number: u32) {
    let Some(Entry { slot: Slot::Dialing(dialing), .. }) = entries.get_mut(number) else { return };
    let outcome = match dialing.advance(near) {
        Ok(None) => return,
        Ok(Some(sealed)) => carry(entries, number, sealed),
        Err(ended) => Err(ended),
    };
    if let Err(ended) = outcome {
        entries.remove(number);
        entries.refuse(Some(near.unreachable(&ended)));
    }
}

fn carry(entries: &mut Entries, number: u32, sealed: Sealed) -> Result<(), Ended> {
    let Some(Entry { slot: Slot::Dialing(Dialing { plain, target, .. }), .. }) = entries.remove(number) else {
        return Ok(());
    };
    let plain = Plain::new(plain)?;
    entries.watch_plain(&plain.stream, number)?;
    entries.carry(number, Carried { plain, sealed, exchange: Exchange::near(), target, bytes: (0, 0) }, None);
    Ok(())
}

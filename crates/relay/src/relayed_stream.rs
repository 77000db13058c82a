use crate::batch::Batch;
use crate::ended::Ended;
use crate::exchange::{Action, Exchange};
use crate::message::Message;
use crate::plain::Plain;
use crate::sealed::{Filled, Sealed};
use crate::target::Target;
use std::io;

/// A connection that is carried: bytes pass between it and the other end, both ways.
pub(crate) struct Carried {
    pub(crate) plain: Plain,
    pub(crate) sealed: Sealed,
    pub(crate) exchange: Exchange,
    pub(crate) target: Target,
    /// Bytes to the other end and from there that were not counted yet.
    pub(crate) bytes: (u64, u64),
}

/// Reads of one direction in a turn, so that no connection keeps the thread from others.
const MAX_READS: usize = 4;

impl Carried {
    /// Passes on what has come. Returns whether more may have.
    pub(crate) fn run(&mut self, batch: &mut Batch) -> Result<bool, Ended> {
        let has_more = self.send(batch)? | self.receive()?;
        if self.exchange.is_complete() && self.sealed.flush()? {
            return Err(Ended::Complete);
        }
        Ok(has_more)
    }

    fn send(&mut self, batch: &mut Batch) -> Result<bool, Ended> {
        for _ in 0..MAX_READS {
            if !self.sealed.flush()? || self.exchange.has_sent_end() || !self.plain.is_readable {
                return Ok(false);
            }
            match batch.read(&self.plain.stream) {
                Ok(0) => {
                    self.sealed.push(&Message::End)?;
                    self.exchange.end();
                }
                Ok(length) => {
                    let records = batch.seal(length, &mut self.sealed.channel)?;
                    self.sealed.send(records)?;
                    self.bytes.0 += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.plain.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn receive(&mut self) -> Result<bool, Ended> {
        for _ in 0..MAX_READS {
            // A complete exchange is followed by the end of the stream, which is no error then.
            if !self.deliver()? || self.exchange.is_complete() || !self.sealed.is_readable {
                return Ok(false);
            }
            if self.sealed.fill()? == Filled::Nothing {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes on the messages that are there. Returns whether the connection has taken all.
    fn deliver(&mut self) -> Result<bool, Ended> {
        let Carried { plain, sealed, exchange, bytes, .. } = self;
        if !plain.flush()? {
            return Ok(false);
        }
        while let Some(text) = sealed.next_text()? {
            match exchange.receive(Message::decode(text)?)? {
                Action::Deliver(data) => {
                    bytes.1 += data.len() as u64;
                    if !plain.write(data)? {
                        return Ok(false);
                    }
                }
                Action::Finish => plain.finish()?,
                Action::Refuse(refusal) => return Err(Ended::Refused(refusal)),
                // The far end's exchange has passed that.
                Action::Opened | Action::Connect(_) => {}
            }
        }
        Ok(true)
    }
}

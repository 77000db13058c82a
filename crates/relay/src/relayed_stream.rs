use crate::batch::RecordBatch;
use crate::exchange::{MessageAction, MessageExchange};
use crate::message::Message;
use crate::plain::PlainStream;
use crate::sealed::{ReadResult, SealedStream};
use crate::stream_end::StreamEndReason;
use crate::target::Target;
use kumade_net::tcp;
use std::io;
use std::mem;

/// A connection that is carried: bytes pass between it and the other end, both ways.
pub(crate) struct RelayedStream {
    pub(crate) plain: PlainStream,
    pub(crate) sealed: SealedStream,
    pub(crate) protocol: MessageExchange,
    pub(crate) target: Target,
    /// Bytes to the other end and from there that were not counted yet.
    pub(crate) uncounted_bytes: (u64, u64),
    /// Whether the kernel's buffers are [small](SMALL_BUFFER_BYTES) until bytes pass.
    pub(crate) has_small_buffers: bool,
    pub(crate) has_carried_bytes: bool,
}

/// Of connections of a peer that has many: the kernel holds twice as much at most. A record is longer, and passes in parts.
pub(crate) const SMALL_BUFFER_BYTES: usize = 8 << 10;

/// Reads of one direction in a turn, so that no connection keeps the thread from others.
const MAX_READS_PER_TURN: usize = 4;

impl RelayedStream {
    pub(crate) fn new(plain: PlainStream, sealed: SealedStream, protocol: MessageExchange, target: Target) -> Self {
        RelayedStream {
            plain,
            sealed,
            protocol,
            target,
            uncounted_bytes: (0, 0),
            has_small_buffers: false,
            has_carried_bytes: false,
        }
    }

    /// Bytes that are held for it, here and in the kernel.
    pub(crate) fn held_bytes(&self) -> usize {
        self.sealed.held_bytes() + self.plain.held_bytes()
    }

    /// Has the kernel's buffers grow with what is carried.
    pub(crate) fn release_buffer_sizes(&mut self) {
        if self.has_carried_bytes && mem::take(&mut self.has_small_buffers) {
            tcp::release_buffer_sizes(&self.sealed.stream);
            tcp::release_buffer_sizes(&self.plain.stream);
        }
    }

    /// Passes on what has come. Returns whether more may have.
    pub(crate) fn relay_bytes(&mut self, batch: &mut RecordBatch) -> Result<bool, StreamEndReason> {
        let has_more = self.relay_to_peer(batch)? | self.relay_from_peer()?;
        self.sealed.release_memory();
        self.has_carried_bytes |= self.uncounted_bytes != (0, 0);
        if self.protocol.is_complete() && self.sealed.flush()? {
            return Err(StreamEndReason::Complete);
        }
        Ok(has_more)
    }

    fn relay_to_peer(&mut self, batch: &mut RecordBatch) -> Result<bool, StreamEndReason> {
        for _ in 0..MAX_READS_PER_TURN {
            if !self.sealed.flush()? || self.protocol.has_sent_end() || !self.plain.is_readable {
                return Ok(false);
            }
            match batch.read(&self.plain.stream) {
                Ok(0) => {
                    self.sealed.queue_message(&Message::End)?;
                    self.protocol.record_end_sent();
                }
                Ok(length) => {
                    let records = batch.seal(length, &mut self.sealed.channel)?;
                    self.sealed.send(records)?;
                    self.uncounted_bytes.0 += length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.plain.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    fn relay_from_peer(&mut self) -> Result<bool, StreamEndReason> {
        for _ in 0..MAX_READS_PER_TURN {
            // A complete exchange is followed by the end of the stream, which is no error then.
            if !self.deliver_messages()? || self.protocol.is_complete() || !self.sealed.is_readable {
                return Ok(false);
            }
            if self.sealed.read_records()? == ReadResult::WouldBlock {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes on the messages that are there. Returns whether the connection has taken all.
    fn deliver_messages(&mut self) -> Result<bool, StreamEndReason> {
        let RelayedStream { plain, sealed, protocol: exchange, uncounted_bytes: bytes, .. } = self;
        if !plain.flush()? {
            return Ok(false);
        }
        while let Some(text) = sealed.next_message()? {
            match exchange.receive(Message::decode(text)?)? {
                MessageAction::Deliver(data) => {
                    bytes.1 += data.len() as u64;
                    if !plain.write(data)? {
                        return Ok(false);
                    }
                }
                MessageAction::ShutdownWrite => plain.shutdown_write()?,
                MessageAction::Refuse(refusal) => return Err(StreamEndReason::Refused(refusal)),
                // The far end's exchange has passed that.
                MessageAction::Opened | MessageAction::Connect(_) => {}
            }
        }
        Ok(true)
    }
}

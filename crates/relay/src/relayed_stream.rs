use crate::batch::RecordBatch;
use crate::exchange::{MessageAction, MessageExchange};
use crate::message::Message;
use crate::plain::PlainStream;
use crate::sealed::{ReadResult, SealedStream};
use crate::stream_end::StreamEndReason;
use crate::target::Target;
use kumade_net::{clock, tcp};
use kumade_noise_session::channel::{REKEY_AFTER, RekeyError};
use kumade_units::{Span, Time};
use rand::rngs::StdRng;
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
    /// When its keys became what they are, …
    keys_since: Time,
    /// … and whether bytes have passed since.
    has_used_keys: bool,
}

/// Of connections of a peer that has many: the kernel holds twice as much at most. A record is longer, and passes in parts.
pub(crate) const SMALL_BUFFER_BYTES: usize = 8 << 10;

/// The least time between two exchanges of keys that a peer begins, which cost some 100 µs each. It waits for
/// [`REKEY_AFTER`], but what it sends may be delayed.
const MIN_REKEY_INTERVAL: Span = Span::from_secs(30);

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
            keys_since: clock::monotonic(),
            has_used_keys: false,
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
    pub(crate) fn relay_bytes(
        &mut self,
        batch: &mut RecordBatch,
        random: &mut StdRng,
    ) -> Result<bool, StreamEndReason> {
        let has_more = self.relay_to_peer(batch)? | self.relay_from_peer(random)?;
        self.sealed.release_memory();
        self.has_carried_bytes |= self.uncounted_bytes != (0, 0);
        self.has_used_keys |= self.uncounted_bytes != (0, 0);
        if self.sealed.flush()? && self.protocol.is_complete() {
            return Err(StreamEndReason::Complete);
        }
        Ok(has_more)
    }

    /// Begins to exchange keys, at the near end, if those in use are old and both ends can. Returns whether there is something
    /// to send.
    pub(crate) fn begin_rekey_if_due(&mut self, now: Time, random: &mut StdRng) -> Result<bool, StreamEndReason> {
        if self.rekey_due_at().is_none_or(|due| now < due) {
            return Ok(false);
        }
        let offer = self.sealed.channel.begin_rekey(random)?;
        self.sealed.queue_message(&Message::RekeyOffer(offer))?;
        Ok(true)
    }

    /// When the near end is to begin that; never, while no bytes have passed with these keys, or the ends cannot.
    pub(crate) fn rekey_due_at(&self) -> Option<Time> {
        let is_possible = self.has_used_keys && self.protocol.is_open() && self.sealed.channel.can_rekey();
        is_possible.then(|| self.keys_since + REKEY_AFTER)
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

    fn relay_from_peer(&mut self, random: &mut StdRng) -> Result<bool, StreamEndReason> {
        for _ in 0..MAX_READS_PER_TURN {
            // A complete exchange is followed by the end of the stream, which is no error then.
            if !self.deliver_messages(random)? || self.protocol.is_complete() || !self.sealed.is_readable {
                return Ok(false);
            }
            if self.sealed.read_records()? == ReadResult::WouldBlock {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes on the messages that are there. Returns whether the connection has taken all.
    fn deliver_messages(&mut self, random: &mut StdRng) -> Result<bool, StreamEndReason> {
        let RelayedStream {
            plain, sealed, protocol: exchange, uncounted_bytes: bytes, keys_since, has_used_keys, ..
        } = self;
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
                MessageAction::AnswerRekey(offer) => {
                    let now = clock::monotonic();
                    if now - *keys_since < MIN_REKEY_INTERVAL {
                        return Err(RekeyError.into());
                    }
                    let answer = sealed.channel.answer_rekey(&offer, random)?;
                    sealed.queue_message(&Message::RekeyAnswer(answer))?;
                    sealed.channel.switch_send()?;
                    *keys_since = now;
                }
                MessageAction::FinishRekey(answer) => {
                    sealed.channel.finish_rekey(&answer)?;
                    sealed.queue_message(&Message::Rekeyed)?;
                    sealed.channel.switch_send()?;
                    (*keys_since, *has_used_keys) = (clock::monotonic(), false);
                }
                MessageAction::SwitchReceive => sealed.channel.switch_receive()?,
                MessageAction::Refuse(refusal) => return Err(StreamEndReason::Refused(refusal)),
                // The far end's exchange has passed that.
                MessageAction::Opened | MessageAction::Connect(_) => {}
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kumade_net::tcp::RtoLimits;
    use kumade_noise_session::channel::{StreamAcceptor, StreamAnswer, StreamInitiator};
    use kumade_noise_session::stream::{PREFIX_BYTES, RecordReader};
    use kumade_noise_session::{HandshakePolicy, PresharedKey, PrivateKey};
    use rand::SeedableRng;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    /// The program or the target, and what it is connected to.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let outside = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inside = listener.accept().unwrap().0;
        inside.set_nonblocking(true).unwrap();
        (outside, inside)
    }

    struct Pair {
        near: RelayedStream,
        far: RelayedStream,
        program: TcpStream,
        target: TcpStream,
        random: StdRng,
    }

    /// A stream that is open.
    fn pair() -> Pair {
        let mut random = StdRng::seed_from_u64(1);
        let [one, two] = [1, 2].map(|number| PrivateKey::from_bytes([number; 32]));
        let mut initiator = StreamInitiator::new(one.clone(), two.public_key(), PresharedKey::default());
        let mut acceptor = StreamAcceptor::new(
            two,
            &HandshakePolicy::default(),
            [(one.public_key(), PresharedKey::default())],
            &mut random,
        );
        let (pending, initiation) = initiator.begin(Time::ZERO, &mut random).unwrap();
        let source = Ipv4Addr::LOCALHOST.into();
        let accepted = acceptor.accept(&initiation[PREFIX_BYTES..], source, Time::ZERO, &mut random).unwrap();
        let StreamAnswer::Accepted(accepted) = accepted else { panic!("{accepted:?}") };
        let channels = [pending.finish(&accepted.response[PREFIX_BYTES..]).unwrap(), accepted.channel];
        let (near_socket, far_socket) = connected();
        near_socket.set_nonblocking(true).unwrap();
        let mut sealed = [near_socket, far_socket].into_iter().zip(channels).map(|(socket, channel)| {
            SealedStream::new(socket, channel, RecordReader::new(), RtoLimits::default()).unwrap()
        });
        let (program, near_plain) = connected();
        let (target, far_plain) = connected();
        let mut stream = |plain, mut protocol: MessageExchange, first: Message<'_>| {
            protocol.receive(first).unwrap();
            let target = "10.2.0.7:22".parse().unwrap();
            RelayedStream::new(PlainStream::new(plain).unwrap(), sealed.next().unwrap(), protocol, target)
        };
        let near = stream(near_plain, MessageExchange::for_near_end(), Message::Opened);
        let open = Message::Open("10.2.0.7:22".parse().unwrap());
        let far = stream(far_plain, MessageExchange::for_far_end(), open);
        Pair { near, far, program, target, random }
    }

    impl Pair {
        /// Until nothing is under way.
        fn relay(&mut self) {
            let mut batch = RecordBatch::new();
            for _ in 0..50 {
                for stream in [&mut self.near, &mut self.far] {
                    // What has become of the sockets is told by the kernel elsewhere.
                    (stream.plain.is_readable, stream.sealed.is_readable) = (true, true);
                    stream.relay_bytes(&mut batch, &mut self.random).unwrap();
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }

        fn assert_carries(&mut self, text: &[u8]) {
            let mut received = vec![0; text.len()];
            self.program.write_all(text).unwrap();
            self.relay();
            self.target.read_exact(&mut received).unwrap();
            assert_eq!(received, text);
            self.target.write_all(text).unwrap();
            self.relay();
            self.program.read_exact(&mut received).unwrap();
            assert_eq!(received, text);
        }

        fn rekey_counts(&self) -> [u64; 2] {
            [&self.near, &self.far].map(|stream| stream.sealed.channel.rekey_count())
        }
    }

    #[test]
    fn a_long_stream_exchanges_keys_while_bytes_pass() {
        let mut pair = pair();
        let begun = pair.near.keys_since;
        let rekey = |pair: &mut Pair, now| pair.near.begin_rekey_if_due(now, &mut pair.random).unwrap();
        assert!(!rekey(&mut pair, begun + REKEY_AFTER), "nothing has passed");
        assert_eq!(pair.near.rekey_due_at(), None);
        pair.assert_carries(b"one");
        assert_eq!(pair.near.rekey_due_at(), Some(begun + REKEY_AFTER));
        assert!(!rekey(&mut pair, begun + REKEY_AFTER - Span::from_millis(1)));
        for round in 1..=3 {
            let now = pair.near.keys_since + REKEY_AFTER;
            assert!(rekey(&mut pair, now) && !rekey(&mut pair, now));
            assert_eq!(pair.near.rekey_due_at(), None);
            // The time that the far end has seen since.
            pair.far.keys_since = pair.far.keys_since - MIN_REKEY_INTERVAL;
            pair.assert_carries(b"two");
            assert_eq!(pair.rekey_counts(), [round; 2]);
            pair.assert_carries(b"three");
        }
    }

    #[test]
    fn a_peer_that_exchanges_keys_all_the_time_is_left() {
        let mut pair = pair();
        pair.assert_carries(b"one");
        let now = pair.near.keys_since + REKEY_AFTER;
        assert!(pair.near.begin_rekey_if_due(now, &mut pair.random).unwrap());
        assert!(pair.near.sealed.flush().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        pair.far.sealed.is_readable = true;
        let outcome = pair.far.relay_bytes(&mut RecordBatch::new(), &mut pair.random);
        assert!(matches!(outcome, Err(StreamEndReason::NotAPeer(_))), "{outcome:?}");
    }
}

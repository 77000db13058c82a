use super::{Receiver, Sender, TcpAcknowledgement, TcpData};
use kumade_multipath::TcpSenderState;
use kumade_units::Time;
use std::collections::{BTreeMap, VecDeque};

/// One end of a connection that carries records both ways, each as so many bytes of a stream of bytes. Its far end is
/// another one.
///
/// Records are handed on in their order, each when all of its bytes and of those before it have arrived. Short segments leave at
/// once (no Nagle algorithm), and take an acknowledgement that waits with them. After each call, call
/// [`TcpConnection::poll_send`] until it returns nothing; call [`TcpConnection::on_time`] at [`TcpConnection::next_time`].
#[derive(Debug)]
pub struct TcpConnection<R> {
    sender: Sender,
    receiver: Receiver,
    segment_bytes: u32,
    /// Records with bytes that have not left yet, and how many of these.
    unsent: VecDeque<(u32, R)>,
    unsent_bytes: u64,
    /// Segments that have left and are not acknowledged, the first of this number.
    sent: VecDeque<SentRecord<R>>,
    first_unacknowledged: u32,
    acknowledged_bytes: u64,
    /// What has arrived and is not handed on, by number of segment.
    undelivered_records: BTreeMap<u32, Vec<R>>,
    delivered_segments: u32,
    pending_acknowledgements: VecDeque<TcpAcknowledgement>,
    /// The far end's segment with this number, or what comes after it, was the last that told its window.
    last_window_update: u32,
}

/// A segment as it was sent first, with the records that end in it.
#[derive(Debug)]
struct SentRecord<R> {
    bytes: u32,
    records: Vec<R>,
}

/// What one end sends to the other.
#[derive(Debug, Clone)]
pub struct TcpSegment<R> {
    /// The number of the first segment that it might carry.
    pub sequence: u32,
    /// Data, if it has any.
    pub data: Option<TcpData>,
    /// An acknowledgement, if it has one.
    pub acknowledgement: Option<TcpAcknowledgement>,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// The records whose last byte it has.
    pub records: Vec<R>,
}

impl<R: Clone> TcpConnection<R> {
    /// An end that sends segments of up to so many bytes of payload.
    pub fn new(sender: Sender, receiver: Receiver, segment_bytes: u32) -> Self {
        let mut connection = TcpConnection {
            sender,
            receiver,
            segment_bytes: segment_bytes.max(1),
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            sent: VecDeque::new(),
            first_unacknowledged: 0,
            acknowledged_bytes: 0,
            undelivered_records: BTreeMap::new(),
            delivered_segments: 0,
            pending_acknowledgements: VecDeque::new(),
            last_window_update: 0,
        };
        connection.offer_segments();
        connection
    }

    /// Adds a record of so many bytes, at least one, to what is to be sent.
    pub fn write(&mut self, record: R, bytes: u32) {
        if self.unsent_bytes < u64::from(self.segment_bytes) {
            self.sender.record_application_limit();
        }
        self.unsent.push_back((bytes.max(1), record));
        self.unsent_bytes += u64::from(bytes.max(1));
        self.offer_segments();
    }

    /// Takes what the far end has sent; appends the records that it completes.
    pub fn receive(&mut self, segment: TcpSegment<R>, now: Time, out: &mut Vec<R>) {
        if let Some(acknowledgement) = &segment.acknowledgement {
            let tells_window = self.updates_window(acknowledgement, segment.sequence);
            let may_be_duplicate = segment.data.is_none() && !tells_window;
            self.sender.acknowledge_beside_data(acknowledgement, may_be_duplicate, now);
            while self.first_unacknowledged < self.sender.first_outstanding() {
                self.first_unacknowledged += 1;
                self.acknowledged_bytes += self.sent.pop_front().map_or(0, |sent| u64::from(sent.bytes));
            }
        }
        let Some(data) = &segment.data else { return };
        if data.number >= self.delivered_segments {
            self.undelivered_records.insert(data.number, segment.records);
        }
        self.pending_acknowledgements.extend(self.receiver.receive(data, false, now));
        while self.delivered_segments < self.receiver.in_order_segments() {
            out.extend(self.undelivered_records.remove(&self.delivered_segments).unwrap_or_default());
            self.delivered_segments += 1;
        }
    }

    /// What is to be sent now, if anything.
    pub fn poll_send(&mut self, now: Time) -> Option<TcpSegment<R>> {
        // Only the last one can travel with data.
        let sequence = self.sender.next_number();
        let alone = |acknowledgement| TcpSegment {
            sequence,
            data: None,
            acknowledgement: Some(acknowledgement),
            payload_bytes: 0,
            records: Vec::new(),
        };
        if self.pending_acknowledgements.len() > 1 {
            return self.pending_acknowledgements.pop_front().map(alone);
        }
        let Some(data) = self.sender.poll_send(now) else {
            return self.pending_acknowledgements.pop_front().map(alone);
        };
        let place = (data.number - self.first_unacknowledged) as usize;
        if place == self.sent.len() {
            let sent = self.take_segment();
            self.sent.push_back(sent);
            self.offer_segments();
        }
        let SentRecord { bytes, records } = &self.sent[place];
        let acknowledgement =
            self.pending_acknowledgements.pop_front().or_else(|| self.receiver.take_delayed_acknowledgement());
        // A stream has no end.
        let data = TcpData { is_last: false, ..data };
        Some(TcpSegment {
            sequence: data.number,
            data: Some(data),
            acknowledgement,
            payload_bytes: *bytes,
            records: records.clone(),
        })
    }

    /// When to call [`TcpConnection::on_time`].
    pub fn next_time(&self) -> Option<Time> {
        self.sender.next_time().into_iter().chain(self.receiver.next_time()).min()
    }

    /// Does what is due.
    pub fn on_time(&mut self, now: Time) {
        self.sender.on_time(now);
        self.pending_acknowledgements.extend(self.receiver.on_time(now));
    }

    /// Bytes that have not left yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes
    }

    /// How its sending side does now, as Linux tells it.
    pub fn sender_state(&self) -> TcpSenderState {
        let free = self.sender.window().saturating_sub(self.sender.in_flight());
        TcpSenderState {
            unsent_bytes: self.unsent_bytes,
            window_bytes: u64::from(free) * u64::from(self.segment_bytes),
            acknowledged_bytes: self.acknowledged_bytes,
            delivered_bytes: self.sender.delivered() * u64::from(self.segment_bytes),
            in_flight_bytes: u64::from(self.sender.in_flight()) * u64::from(self.segment_bytes),
            retransmitted_bytes: self.sender.statistics().retransmissions * u64::from(self.segment_bytes),
            is_recovering: self.sender.is_recovering(),
            excess_round_trip: self.sender.excess_round_trip(),
            delivery_rate: self.sender.delivery_rate().unwrap_or_default(),
        }
    }

    /// Whether it tells the window anew, as it comes after what told it last (RFC 9293, section 3.10.7.4): then it is no duplicate,
    /// even if all that came in between was data.
    fn updates_window(&mut self, acknowledgement: &TcpAcknowledgement, sequence: u32) -> bool {
        let is_new = acknowledgement.next > self.first_unacknowledged || sequence > self.last_window_update;
        if is_new {
            self.last_window_update = sequence;
        }
        is_new
    }

    /// Tells the sender how many segments there are to be sent.
    fn offer_segments(&mut self) {
        let segments = self.unsent_bytes.div_ceil(self.segment_bytes.into());
        self.sender.offer(u32::try_from(segments).unwrap_or(u32::MAX));
    }

    /// The next segment of what is to be sent.
    fn take_segment(&mut self) -> SentRecord<R> {
        let mut sent = SentRecord { bytes: 0, records: Vec::new() };
        while let Some((left, _)) = self.unsent.front_mut() {
            let taken = (*left).min(self.segment_bytes - sent.bytes);
            *left -= taken;
            sent.bytes += taken;
            if *left > 0 {
                break;
            }
            sent.records.extend(self.unsent.pop_front().map(|(_, record)| record));
        }
        self.unsent_bytes -= u64::from(sent.bytes);
        sent
    }
}

use super::ranges::{NumberRanges, SackBlock};
use super::{LossDetection, RecoveryConfig, TcpAcknowledgement, TcpData};
use kumade_units::{Span, Time};

/// How long an acknowledgement may wait for the next segment (Linux's `TCP_ATO_MIN`).
const DELAYED_ACK_TIMEOUT: Span = Span::from_millis(40);
/// Of the clock by which it waits.
const TIMER_TICK: Span = Span::from_millis(4);
/// How many go without delay at the start and after silence (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// A silence after which the sender may have begun anew.
const QUICK_ACK_IDLE: Span = Span::from_millis(200);

/// The end that puts segments in order and acknowledges them. Call [`Receiver::on_time`] at [`Receiver::next_time`].
#[derive(Debug)]
pub struct Receiver {
    segments_per_ack: u32,
    next: u32,
    out_of_order: NumberRanges,
    /// Segments that arrived beyond `next`, the newest first: their blocks are reported.
    recent_arrivals: [u32; 3],
    /// What was `next` when it was last acknowledged.
    last_acknowledged: u32,
    echoed_stamp: Time,
    quick_acks_left: u32,
    deadline: Option<Time>,
    last_arrival: Option<Time>,
    echoes_mark: bool,
    ce_packets: u32,
    has_sack: bool,
    max_ack_delay: Span,
}

impl Receiver {
    /// Acknowledges every `every`th segment, as long as they come in order and without pause. Zero counts as one.
    pub fn new(every: u32) -> Self {
        Receiver {
            segments_per_ack: every.max(1),
            next: 0,
            out_of_order: NumberRanges::default(),
            recent_arrivals: [0; 3],
            last_acknowledged: 0,
            echoed_stamp: Time::ZERO,
            quick_acks_left: QUICK_ACKS,
            deadline: None,
            last_arrival: None,
            echoes_mark: false,
            ce_packets: 0,
            has_sack: true,
            max_ack_delay: DELAYED_ACK_TIMEOUT,
        }
    }

    /// The same for a sender that finds losses so: one without SACK is told nothing but what has arrived in order. As in
    /// Linux, no acknowledgement waits for as long as the timeout may be.
    pub fn with_recovery(self, config: &RecoveryConfig) -> Self {
        let has_sack = config.detection == LossDetection::RackTlp;
        let delay = DELAYED_ACK_TIMEOUT.min(config.min_timeout - TIMER_TICK).max(TIMER_TICK);
        Receiver { has_sack, max_ack_delay: delay, ..self }
    }

    /// The acknowledgement that waits for another segment, to travel with data.
    pub fn take_delayed_acknowledgement(&mut self) -> Option<TcpAcknowledgement> {
        self.deadline.is_some().then(|| self.new_acknowledgement(None))
    }

    /// Segments that arrived in order: what the application has.
    pub fn in_order_segments(&self) -> u32 {
        self.next
    }

    /// When to call [`Receiver::on_time`].
    pub fn next_time(&self) -> Option<Time> {
        self.deadline
    }

    /// Takes a segment; `marked` says whether a queue has marked it. What comes back is to be sent.
    pub fn receive(&mut self, data: &TcpData, marked: bool, now: Time) -> Option<TcpAcknowledgement> {
        if self.last_arrival.replace(now).is_some_and(|last| now - last > QUICK_ACK_IDLE) {
            self.quick_acks_left = QUICK_ACKS;
        }
        // RFC 7323, section 4.3: the stamp of the first segment that an acknowledgement covers is echoed.
        if data.number <= self.last_acknowledged {
            self.echoed_stamp = self.echoed_stamp.max(data.timestamp);
        }
        self.ce_packets = self.ce_packets.wrapping_add(u32::from(marked));
        self.echoes_mark = marked || (self.echoes_mark && !data.cwr);
        if data.number < self.next || self.out_of_order.block_containing(data.number).is_some() {
            return Some(self.new_acknowledgement(Some(data.number)));
        }
        let gaps = !self.out_of_order.is_empty();
        if data.number > self.next {
            self.out_of_order.insert(SackBlock::single(data.number), |_| ());
            self.move_block_first(data.number);
        } else {
            self.next += 1;
            self.next = self.out_of_order.take_from(self.next).unwrap_or(self.next);
        }
        // RFC 5681, section 4.2: at once where there is or was a gap.
        let waiting = self.next - self.last_acknowledged;
        if gaps
            || data.number > self.next
            || marked
            || data.is_last
            || self.quick_acks_left > 0
            || waiting >= self.segments_per_ack
        {
            return Some(self.new_acknowledgement(None));
        }
        self.deadline.get_or_insert(now + self.max_ack_delay);
        None
    }

    /// What is to be sent because the time has come.
    pub fn on_time(&mut self, now: Time) -> Option<TcpAcknowledgement> {
        (self.deadline? <= now).then(|| self.new_acknowledgement(None))
    }

    fn new_acknowledgement(&mut self, duplicate: Option<u32>) -> TcpAcknowledgement {
        self.last_acknowledged = self.next;
        self.deadline = None;
        self.quick_acks_left = self.quick_acks_left.saturating_sub(1);
        let mut blocks = [SackBlock::default(); 3];
        if !self.has_sack {
            let congestion = self.echoes_mark;
            return TcpAcknowledgement {
                next: self.next,
                timestamp_echo: self.echoed_stamp,
                sack_blocks: blocks,
                is_dsack: false,
                ece: congestion,
                ce_packets: self.ce_packets,
            };
        }
        let mut filled = 0;
        if let Some(number) = duplicate {
            blocks[0] = SackBlock::single(number);
            filled = 1;
        }
        for number in self.recent_arrivals {
            let Some(block) = self.out_of_order.block_containing(number) else { continue };
            if filled < blocks.len() && !blocks[usize::from(duplicate.is_some())..filled].contains(&block) {
                blocks[filled] = block;
                filled += 1;
            }
        }
        let congestion = self.echoes_mark;
        TcpAcknowledgement {
            next: self.next,
            timestamp_echo: self.echoed_stamp,
            sack_blocks: blocks,
            is_dsack: duplicate.is_some(),
            ece: congestion,
            ce_packets: self.ce_packets,
        }
    }

    /// Remembers the newest arrival and two of other blocks.
    fn move_block_first(&mut self, newest: u32) {
        let block = self.out_of_order.block_containing(newest).unwrap_or_default();
        let mut others = self.recent_arrivals.into_iter().filter(|number| !(block.start..block.end).contains(number));
        self.recent_arrivals = [newest, others.next().unwrap_or(0), others.next().unwrap_or(0)];
    }
}

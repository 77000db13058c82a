use crate::bond::outgoing::{Divide, FirstSegment, WaitingPacket};
use kumade_link::queue::{DroppedPacket, Queue, QueueConfig, QueueDiscipline, QueuedPacket};
use kumade_link::{Label, Valid};
use kumade_units::{Span, Time};

/// A queue whose packets may stand for several. The discipline decides about each of these where it divides packets itself; in others,
/// what is left of one is next.
#[derive(Debug)]
pub(super) struct WaitingQueue<P> {
    queue: Queue<WaitingPacket<P>>,
    /// The next one, where it has been looked at or divided.
    peeked: Option<QueuedPacket<WaitingPacket<P>>>,
}

/// What may leave together with a segment: what came with it, in its flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Follower {
    label: Label,
    arrival: Time,
}

type Drops<P> = Vec<DroppedPacket<WaitingPacket<P>>>;

impl<P> WaitingQueue<P> {
    pub fn new(config: &Valid<QueueConfig>, seed: u64) -> Self {
        WaitingQueue { queue: Queue::new(config, seed), peeked: None }
    }

    pub fn enqueue(&mut self, packet: WaitingPacket<P>, label: Label, now: Time, drops: &mut Drops<P>) {
        // What the discipline drops is counted, whichever packet it is.
        let _ = self.queue.enqueue(QueuedPacket::with_label(packet, label, now), drops);
    }

    pub fn set_codel_times(&mut self, target: Span, interval: Span) {
        if let Queue::FqCoDel(queue) = &mut self.queue {
            queue.set_times(target, interval);
        }
    }

    /// Whether the discipline divides packets itself.
    pub fn divides_packets(&self) -> bool {
        matches!(self.queue, Queue::FqCoDel(_))
    }

    /// What is next, or the first segment of it; then also what may follow it.
    pub fn dequeue(
        &mut self,
        now: Time,
        divide: &mut Divide<'_, P>,
        drops: &mut Drops<P>,
    ) -> Option<(WaitingPacket<P>, Label, Option<Follower>)> {
        let divide = &mut |queued: &mut _| take_first(queued, divide);
        if self.peeked.is_none()
            && let Queue::FqCoDel(queue) = &mut self.queue
        {
            let mut is_divided = false;
            let divide = &mut |queued: &mut _| divide(queued).inspect(|_| is_divided = true);
            let (packet, label, arrival) = unpack(queue.dequeue_divided(now, divide, drops)?);
            return Some((packet, label, is_divided.then_some(Follower { label, arrival })));
        }
        let mut next = self.peeked.take().or_else(|| self.queue.dequeue(now, drops))?;
        let taken = match divide(&mut next) {
            Some(first) => {
                self.peeked = Some(next);
                first
            }
            None => next,
        };
        let (packet, label, _) = unpack(taken);
        Some((packet, label, None))
    }

    /// What follows, in the same turn of its flow, which has sent so many bytes with it, of as many as a round may
    /// have ([`FqCoDel::dequeue_following`](kumade_link::queue::FqCoDel)).
    pub fn dequeue_following(
        &mut self,
        Follower { label, arrival }: Follower,
        burst: (u64, u64),
        divide: &mut Divide<'_, P>,
    ) -> Option<(WaitingPacket<P>, Label)> {
        let Queue::FqCoDel(queue) = &mut self.queue else { return None };
        let next = queue.dequeue_following((&label, arrival), burst, &mut |queued| take_first(queued, divide))?;
        let (packet, label, _) = unpack(next);
        Some((packet, label))
    }

    /// What is next, as a whole, if it is wanted.
    pub fn take_if(
        &mut self,
        now: Time,
        is_wanted: impl FnOnce(&WaitingPacket<P>, u64) -> bool,
        drops: &mut Drops<P>,
    ) -> Option<(WaitingPacket<P>, Label)> {
        let next = self.peeked.take().or_else(|| self.queue.dequeue(now, drops))?;
        if !is_wanted(&next.content, next.flow) {
            self.peeked = Some(next);
            return None;
        }
        let (packet, label, _) = unpack(next);
        Some((packet, label))
    }

    pub fn is_empty(&self) -> bool {
        self.peeked.is_none() && self.queue.packets() == 0
    }

    pub fn bytes(&self) -> u64 {
        self.queue.bytes() + self.peeked.as_ref().map_or(0, |next| next.size.into())
    }
}

/// The first segment of a packet that stands for several.
fn take_first<P>(
    queued: &mut QueuedPacket<WaitingPacket<P>>,
    divide: &mut Divide<'_, P>,
) -> Option<QueuedPacket<WaitingPacket<P>>> {
    let whole = &mut queued.content;
    if whole.segments <= 1 {
        return None;
    }
    let FirstSegment { packet, bytes, left_bytes } = divide(&mut whole.content)?;
    whole.segments -= 1;
    whole.longest_bytes = whole.longest_bytes.min(left_bytes);
    let first = WaitingPacket {
        content: packet,
        segments: 1,
        longest_bytes: bytes,
        is_ecn_marked: whole.is_ecn_marked,
        delivery_order: whole.delivery_order,
        queued_at: whole.queued_at,
        number: None,
    };
    queued.size = left_bytes;
    Some(QueuedPacket {
        marked: queued.marked,
        ..QueuedPacket::with_label(first, Label { size: bytes, ..queued.label() }, queued.arrival)
    })
}

fn unpack<P>(queued: QueuedPacket<WaitingPacket<P>>) -> (WaitingPacket<P>, Label, Time) {
    let (label, arrival) = (queued.label(), queued.arrival);
    // One that is placed anew may have been marked before.
    let is_ecn_marked = queued.marked || queued.content.is_ecn_marked;
    (WaitingPacket { is_ecn_marked, ..queued.content }, label, arrival)
}

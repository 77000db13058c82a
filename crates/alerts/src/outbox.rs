use kumade_units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What is to be sent, to whom, in which order, and when it is tried again. Each receiver has a queue of its own, so that none waits for
/// another; in it, what happened first is sent first.
#[derive(Debug, Default)]
pub struct Outbox {
    queues: Vec<Queue>,
}

/// One message to one receiver. It is sent until it has been taken, and so perhaps more than once; its id stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// To whom.
    pub receiver: String,
    /// Different from all others to the receiver.
    pub id: String,
    /// What is sent.
    pub body: String,
    /// When it was put here, UTC.
    pub created: Time,
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub reason: String,
    /// The receiver understood it and refuses it: it is not worth many attempts.
    pub is_refusal: bool,
}

#[derive(Debug)]
struct Queue {
    receiver: String,
    waiting: VecDeque<Delivery>,
    is_sending: bool,
    attempts: u32,
    /// By the monotonic clock.
    next_attempt: Time,
}

/// Messages that wait for a receiver, at most; the oldest goes first.
const MAX_WAITING: usize = 200;
/// Older ones are of no use to anyone.
const MAX_AGE: Span = Span::from_secs(86_400);
/// Before the second attempt; it doubles with each …
const FIRST_RETRY: Span = Span::from_secs(2);
/// … up to this.
const MAX_RETRY: Span = Span::from_secs(600);
/// Attempts at one that is refused.
const MAX_REFUSALS: u32 = 3;

impl Outbox {
    /// For these receivers, with what waited before; what waited for others is given up.
    pub fn new(receivers: impl IntoIterator<Item = String>, waiting: Vec<Delivery>) -> Self {
        let queue = |receiver| Queue {
            receiver,
            waiting: VecDeque::new(),
            is_sending: false,
            attempts: 0,
            next_attempt: Time::ZERO,
        };
        let mut outbox = Outbox { queues: receivers.into_iter().map(queue).collect() };
        waiting.into_iter().for_each(|delivery| outbox.put(delivery));
        outbox
    }

    /// Has a message sent to each receiver.
    pub fn put_for_all(&mut self, id: &str, body: &str, utc: Time) {
        let receivers: Vec<String> = self.queues.iter().map(|queue| queue.receiver.clone()).collect();
        for receiver in receivers {
            self.put(Delivery { receiver, id: id.to_owned(), body: body.to_owned(), created: utc });
        }
    }

    fn put(&mut self, delivery: Delivery) {
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.receiver == delivery.receiver) else { return };
        queue.waiting.push_back(delivery);
        if queue.waiting.len() > MAX_WAITING {
            // The first one may be under way.
            queue.waiting.remove(usize::from(queue.is_sending));
        }
    }

    /// What is to be sent now: the caller says by [`finish`](Self::finish) what came of each. `now` by the monotonic clock, `utc` the
    /// same moment by the clock of the day.
    pub fn take_due(&mut self, now: Time, utc: Time) -> Vec<Delivery> {
        let mut due = Vec::new();
        for queue in self.queues.iter_mut().filter(|queue| !queue.is_sending && now >= queue.next_attempt) {
            while queue.waiting.front().is_some_and(|first| utc - first.created > MAX_AGE) {
                queue.waiting.pop_front();
                queue.attempts = 0;
            }
            if let Some(first) = queue.waiting.front() {
                queue.is_sending = true;
                due.push(first.clone());
            }
        }
        due
    }

    /// What came of an attempt. Returns whether what waits has changed.
    pub fn finish(&mut self, receiver: &str, outcome: Result<(), Failure>, now: Time) -> bool {
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.receiver == receiver && queue.is_sending) else {
            return false;
        };
        (queue.is_sending, queue.attempts) = (false, queue.attempts + 1);
        let is_over =
            outcome.as_ref().map_or_else(|failure| failure.is_refusal && queue.attempts >= MAX_REFUSALS, |()| true);
        if is_over {
            queue.waiting.pop_front();
            (queue.attempts, queue.next_attempt) = (0, now);
        } else {
            let doubled = FIRST_RETRY.as_nanos().saturating_mul(1 << queue.attempts.saturating_sub(1).min(20));
            queue.next_attempt = now + Span::from_nanos(doubled).min(MAX_RETRY);
        }
        is_over
    }

    /// Whether one is under way.
    pub fn is_sending(&self) -> bool {
        self.queues.iter().any(|queue| queue.is_sending)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.waiting.len()).sum()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All that wait, to keep over a restart.
    pub fn waiting(&self) -> impl Iterator<Item = &Delivery> {
        self.queues.iter().flat_map(|queue| &queue.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: i64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn outbox() -> Outbox {
        Outbox::new(["one".to_owned(), "other".to_owned()], Vec::new())
    }

    fn due(outbox: &mut Outbox, second: i64) -> Vec<(String, String)> {
        let due = outbox.take_due(after(second), after(second));
        due.into_iter().map(|delivery| (delivery.receiver, delivery.id)).collect()
    }

    fn failure(is_refusal: bool) -> Result<(), Failure> {
        Err(Failure { reason: "no answer".to_owned(), is_refusal })
    }

    fn pair(receiver: &str, id: &str) -> (String, String) {
        (receiver.to_owned(), id.to_owned())
    }

    #[test]
    fn a_receiver_that_fails_holds_up_no_other_and_is_tried_more_and_more_rarely() {
        let mut outbox = outbox();
        outbox.put_for_all("a", "{}", after(0));
        outbox.put_for_all("b", "{}", after(0));
        assert_eq!(due(&mut outbox, 0), [pair("one", "a"), pair("other", "a")]);
        assert_eq!(due(&mut outbox, 0), [], "both are under way");
        assert!(outbox.finish("other", Ok(()), after(0)));
        assert!(!outbox.finish("one", failure(false), after(0)));
        assert_eq!(due(&mut outbox, 1), [pair("other", "b")], "in their order");
        let mut attempts = Vec::new();
        for second in 2..4000 {
            if !due(&mut outbox, second).is_empty() {
                attempts.push(second);
                outbox.finish("one", failure(false), after(second));
            }
        }
        assert_eq!(attempts, [2, 6, 14, 30, 62, 126, 254, 510, 1022, 1622, 2222, 2822, 3422]);
        assert_eq!(due(&mut outbox, 4022), [pair("one", "a")]);
        assert!(outbox.finish("one", Ok(()), after(4022)));
        assert_eq!(due(&mut outbox, 4022), [pair("one", "b")]);
    }

    #[test]
    fn what_is_refused_or_too_old_is_given_up_and_the_rest_is_kept() {
        let mut outbox = outbox();
        outbox.put_for_all("a", "{}", after(0));
        outbox.put_for_all("b", "{}", after(80_000));
        let attempts = [0, 10, 20].map(|second| {
            assert!(due(&mut outbox, second).contains(&pair("one", "a")));
            outbox.finish("one", failure(true), after(second))
        });
        assert_eq!(attempts, [false, false, true]);
        assert!(!outbox.finish("other", failure(false), after(30)));
        assert_eq!(due(&mut outbox, 90_000), [pair("one", "b"), pair("other", "b")], "a day later");
        let waiting: Vec<Delivery> = outbox.waiting().cloned().collect();
        let mut restarted = Outbox::new(["other".to_owned()], waiting);
        assert_eq!(due(&mut restarted, 90_000), [pair("other", "b")], "what was under way is sent again");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut outbox = outbox();
        (0..1000).for_each(|number| outbox.put_for_all(&number.to_string(), "{}", after(0)));
        assert_eq!(outbox.len(), 2 * MAX_WAITING);
        assert_eq!(due(&mut outbox, 0), [pair("one", "800"), pair("other", "800")]);
    }
}

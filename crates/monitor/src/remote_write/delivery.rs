//! What becomes of samples that are sent: accepted, refused, tried again.

use super::encoding::Sample;
use kumade_units::{Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// What the receiver says to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// All of it is stored.
    Accepted,
    /// Something in it never will be, and nothing of it was stored, or a part: which is not said.
    Refused(String),
    /// Nobody knows whether it would be stored later.
    Failed(String),
    /// It is to be sent again: the receiver was not reached, did not answer, or has too much to do.
    Unavailable {
        /// Why.
        reason: String,
        /// How long it asks to be left alone.
        wait: Option<Span>,
    },
}

/// Samples on their way to a receiver. Pure: ask [`next_request`](Self::next_request), send, and say what came by
/// [`take_answer`](Self::take_answer). The order of a series' samples is kept.
#[derive(Debug, Default)]
pub struct Delivery {
    samples: Vec<Sample>,
    /// The first one is next.
    pieces: VecDeque<Piece>,
    /// Not before.
    next: Option<Time>,
    backoff: Option<Span>,
    /// The second piece is sent next: the first one fails again and again.
    tries_another: bool,
    counts: Counts,
}

/// What has become of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
}

#[derive(Debug)]
struct Piece {
    samples: Range<usize>,
    /// How often it, or what it is a part of, failed.
    failures: u32,
    /// The one after it was stored meanwhile.
    is_suspect: bool,
}

/// In one request: what Prometheus itself sends by default.
const MAX_SAMPLES_IN_REQUEST: usize = 2000;
const MIN_BACKOFF: Span = Span::from_secs(1);
const MAX_BACKOFF: Span = Span::from_secs(60);
/// So many failures, half a minute of them, are perhaps the fault of what is sent.
const MAX_FAILURES: u32 = 5;

impl Delivery {
    /// Delivers these, sorted by time.
    pub fn new(samples: Vec<Sample>) -> Self {
        let starts = (0..samples.len()).step_by(MAX_SAMPLES_IN_REQUEST);
        let piece = |start| Piece {
            samples: start..samples.len().min(start + MAX_SAMPLES_IN_REQUEST),
            failures: 0,
            is_suspect: false,
        };
        Delivery { pieces: starts.map(piece).collect(), samples, ..Delivery::default() }
    }

    /// Whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.pieces.is_empty()
    }

    /// When the next request may be sent; none if nothing is waited for.
    pub fn next_deadline(&self) -> Option<Time> {
        self.next
    }

    /// What is to be sent now.
    pub fn next_request(&self, now: Time) -> Option<&[Sample]> {
        let may_send = self.next.is_none_or(|next| next <= now);
        self.pieces.get(self.next_place()).filter(|_| may_send).map(|piece| &self.samples[piece.samples.clone()])
    }

    /// What came of it. Samples before `expired` are given up where they cannot be delivered now.
    pub fn take_answer(&mut self, answer: &Answer, expired: Time, now: Time) {
        let place = self.next_place();
        let Some(mut piece) = self.pieces.remove(place) else { return };
        match answer {
            Answer::Accepted => {
                self.counts.accepted += piece.samples.len() as u64;
                (self.next, self.backoff) = (None, None);
                if place > 0 {
                    // The receiver works: if the one before it fails once more, it is at fault.
                    self.pieces.front_mut().into_iter().for_each(|first| first.is_suspect = true);
                }
                self.tries_another = false;
            }
            // The receiver works: what it says is no reason to wait.
            Answer::Refused(_) => {
                (self.next, self.backoff) = (None, None);
                self.divide(piece, place);
            }
            Answer::Failed(_) if piece.is_suspect => {
                self.counts.refused += piece.samples.len() as u64;
                self.back_off(None, now);
            }
            Answer::Failed(_) => {
                piece.failures += 1;
                self.back_off(None, now);
                self.retry(piece, place, expired);
            }
            Answer::Unavailable { wait, .. } => {
                self.back_off(*wait, now);
                self.retry(piece, place, expired);
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    fn next_place(&self) -> usize {
        usize::from(self.tries_another && self.pieces.len() > 1)
    }

    /// The first half is sent first; a single sample is the one that is refused.
    fn divide(&mut self, piece: Piece, place: usize) {
        let Range { start, end } = piece.samples;
        if end - start <= 1 {
            self.counts.refused += 1;
            return;
        }
        let half = |samples| Piece { samples, failures: piece.failures, is_suspect: false };
        let middle = start + (end - start) / 2;
        self.pieces.insert(place, half(middle..end));
        self.pieces.insert(place, half(start..middle));
    }

    fn retry(&mut self, mut piece: Piece, place: usize, expired: Time) {
        let expired_millis = expired.as_nanos() / 1_000_000;
        let old = self.samples[piece.samples.clone()].iter().take_while(|sample| sample.time_millis < expired_millis);
        let old = old.count();
        self.counts.refused += old as u64;
        piece.samples.start += old;
        if piece.samples.is_empty() {
            return;
        }
        let (count, failures) = (piece.samples.len(), piece.failures);
        if failures >= MAX_FAILURES && count > 1 {
            return self.divide(piece, place);
        }
        if place == 0 && self.pieces.is_empty() && failures >= 3 * MAX_FAILURES && self.counts.accepted > 0 {
            // All others were stored.
            self.counts.refused += count as u64;
            return;
        }
        self.pieces.insert(place, piece);
        // Whether the one after it can be stored shows whose fault it is. Of one time, it is of another series, and overtakes nothing.
        self.tries_another = place == 0 && failures >= MAX_FAILURES;
    }

    fn back_off(&mut self, wait: Option<Span>, now: Time) {
        let backoff = self.backoff.map_or(MIN_BACKOFF, |last| (last * 2).min(MAX_BACKOFF));
        self.backoff = Some(backoff);
        self.next = Some(now + wait.map_or(backoff, |wait| wait.max(backoff).min(MAX_BACKOFF)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

    fn samples(count: i64) -> Vec<Sample> {
        let sample = |number: i64| Sample {
            labels: Arc::new(vec![("__name__", format!("s{number}"))]),
            time_millis: NOW.as_nanos() / 1_000_000 + number - count,
            value: number as f64,
        };
        (0..count).map(sample).collect()
    }

    /// Sends all; returns the numbers of samples that were stored, and how many requests it took.
    fn deliver(count: i64, mut answer: impl FnMut(&[Sample], Time) -> Answer) -> (Delivery, Vec<i64>, u32, Time) {
        let mut delivery = Delivery::new(samples(count));
        let (mut stored, mut requests, mut now) = (Vec::new(), 0, NOW);
        while !delivery.is_done() {
            let Some(request) = delivery.next_request(now) else {
                now = now.max(delivery.next_deadline().unwrap());
                continue;
            };
            requests += 1;
            let said = answer(request, now);
            if said == Answer::Accepted {
                stored.extend(request.iter().map(|sample| sample.value as i64));
            }
            delivery.take_answer(&said, now - Span::from_secs(3600), now);
        }
        (delivery, stored, requests, now)
    }

    fn has(request: &[Sample], number: f64) -> bool {
        request.iter().any(|sample| sample.value == number)
    }

    #[test]
    fn one_bad_sample_of_64_takes_13_requests_and_costs_no_other() {
        let answer = |request: &[Sample], _| match has(request, 37.0) {
            true => Answer::Refused("out of order".to_owned()),
            false => Answer::Accepted,
        };
        let (delivery, stored, requests, _) = deliver(64, answer);
        assert_eq!(stored, (0..64).filter(|number| *number != 37).collect::<Vec<_>>());
        assert_eq!((requests, delivery.counts()), (13, Counts { accepted: 63, refused: 1 }));
    }

    #[test]
    fn an_outage_delays_and_loses_nothing() {
        let end = NOW + Span::from_secs(900);
        for failure in [
            Answer::Unavailable { reason: "refused".to_owned(), wait: None },
            Answer::Unavailable { reason: "too many".to_owned(), wait: Some(Span::from_secs(86_400)) },
            Answer::Failed("internal error".to_owned()),
        ] {
            let answer = |_: &[Sample], now| if now < end { failure.clone() } else { Answer::Accepted };
            let (_, mut stored, requests, now) = deliver(5000, answer);
            stored.sort_unstable();
            assert!(stored == (0..5000).collect::<Vec<_>>(), "{failure:?}: {}", stored.len());
            assert!(requests < 60 && now < end + Span::from_secs(61), "{failure:?}: {requests} {now:?}");
        }
    }

    #[test]
    fn what_fails_again_and_again_while_others_are_stored_is_given_up() {
        let answer = |request: &[Sample], _| match has(request, 3.0) {
            true => Answer::Failed("this never works".to_owned()),
            false => Answer::Accepted,
        };
        let (delivery, stored, ..) = deliver(64, answer);
        assert_eq!((stored.len(), delivery.counts().refused), (63, 1));
    }

    #[test]
    fn what_has_become_too_old_is_given_up() {
        let (delivery, stored, _, now) = deliver(10, |_, _| Answer::Failed("no".to_owned()));
        assert!(stored.is_empty() && delivery.counts().refused == 10);
        assert!(now - NOW < Span::from_secs(2 * 3600), "{now:?}");
    }
}

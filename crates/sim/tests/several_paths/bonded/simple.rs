use kumade_multipath::DelayRange;
use kumade_units::{Span, Time};
use std::collections::BTreeMap;

/// Resequencing that knows numbers only: what is missing is waited for until a timer expires (the same as that of
/// [`kumade_multipath::Resequencer`] is at first), or else, if `by_minimum`, until each path has delivered a higher number of
/// the bucket.
#[derive(Debug)]
pub struct Simple<T> {
    by_minimum: bool,
    buckets: BTreeMap<u16, Bucket<T>>,
    delays: [Option<DelayRange>; 2],
    margin: Span,
    max_wait: Span,
}

#[derive(Debug)]
struct Bucket<T> {
    next: u32,
    /// The number after the highest of each path.
    passed: [u32; 2],
    waiting: BTreeMap<u32, (T, usize, Time)>,
}

impl<T> Simple<T> {
    pub fn new(by_minimum: bool, margin: Span, max_wait: Span) -> Self {
        Simple { by_minimum, buckets: BTreeMap::new(), delays: [None; 2], margin, max_wait }
    }

    pub fn set_delay(&mut self, path: usize, delay: DelayRange) {
        self.delays[path] = Some(delay);
    }

    pub fn receive(&mut self, path: usize, bucket: u16, number: u32, payload: T, now: Time, out: &mut Vec<T>) {
        let new = || Bucket { next: 0, passed: [0; 2], waiting: BTreeMap::new() };
        let bucket = self.buckets.entry(bucket).or_insert_with(new);
        bucket.passed[path] = bucket.passed[path].max(number + 1);
        if number < bucket.next {
            out.push(payload);
        } else {
            bucket.waiting.insert(number, (payload, path, now));
        }
        bucket.settle(self.by_minimum, false, out);
    }

    pub fn deadline(&self) -> Option<Time> {
        self.buckets.values().filter_map(|bucket| self.deadline_of(bucket)).min()
    }

    pub fn expire(&mut self, now: Time, out: &mut Vec<T>) {
        while let Some(id) = self.due(now) {
            let Some(bucket) = self.buckets.get_mut(&id) else { return };
            bucket.settle(self.by_minimum, true, out);
        }
    }

    fn due(&self, now: Time) -> Option<u16> {
        let is_due = |bucket| self.deadline_of(bucket).is_some_and(|deadline| deadline <= now);
        self.buckets.iter().find(|(_, bucket)| is_due(bucket)).map(|(id, _)| *id)
    }

    fn deadline_of(&self, bucket: &Bucket<T>) -> Option<Time> {
        let (_, path, arrived) = bucket.waiting.values().next()?;
        let spread = self.delays[1 - path].zip(self.delays[*path]).map(|(other, own)| other.max - own.min);
        let wait = spread.map_or(self.max_wait, |spread| (spread.max(Span::ZERO) + self.margin).min(self.max_wait));
        Some(*arrived + wait)
    }
}

impl<T> Bucket<T> {
    /// Delivers until there is a gap that is not over; with `force`, the first one is.
    fn settle(&mut self, by_minimum: bool, mut force: bool, out: &mut Vec<T>) {
        while let Some(first) = self.waiting.first_entry() {
            let number = *first.key();
            let passed = by_minimum && self.passed.iter().all(|passed| *passed > number);
            if number > self.next && !passed && !force {
                return;
            }
            force &= number == self.next;
            self.next = number + 1;
            out.push(first.remove().0);
        }
    }
}

/// Something that happens with a given likelihood, at distances that are as even as may be (RFC 9332, appendix A, `recur`).
#[derive(Debug, Default)]
pub(super) struct RecurringEvent {
    count: f64,
}

impl RecurringEvent {
    /// Whether it happens now.
    pub(super) fn recurs(&mut self, likelihood: f64) -> bool {
        self.count += likelihood;
        let recurs = self.count > 1.0;
        if recurs {
            self.count -= 1.0;
        }
        recurs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_recur_at_even_distances() {
        let mut event = RecurringEvent::default();
        let happened: Vec<u32> = (0..20).filter(|_| event.recurs(0.25)).collect();
        assert_eq!(happened, [4, 8, 12, 16]);
        let mut sure = RecurringEvent::default();
        assert_eq!((0..10).filter(|_| sure.recurs(1.0)).count(), 9);
    }
}

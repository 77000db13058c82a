use kumade_units::{Rate, Span};

/// The delay of an empty path for packets of a range of sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BaseDelay {
    minimum: Option<EmptyDelay>,
    /// Least of the quiet packets of this period and of the one before.
    period_minima: [Option<EmptyDelay>; 2],
}

/// One-way delay of a packet that did not wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmptyDelay {
    pub delay: Span,
    pub size: u32,
    /// What the path carried then.
    pub capacity: Rate,
}

impl EmptyDelay {
    /// What it is for a packet of at least so many bytes, where the path may have become slower since. If it carries less
    /// only because of others, packets that take less than that will tell.
    fn delay_at(&self, size: u32, capacity: Rate) -> Span {
        let transmission = capacity.min(self.capacity).time_for(size.max(self.size).into());
        self.delay + (transmission - self.capacity.time_for(self.size.into()))
    }
}

impl BaseDelay {
    /// The least delay of a packet of at least so many bytes, at this capacity.
    pub fn min_delay(&self, size: u32, capacity: Rate) -> Option<Span> {
        self.minimum.map(|least| least.delay_at(size, capacity))
    }

    /// No packet took less.
    pub fn set_delay(&mut self, least: EmptyDelay) {
        self.minimum = Some(least);
    }

    /// A packet was sent when nothing of ours was queued.
    pub fn record_quiet(&mut self, quiet: EmptyDelay) {
        self.period_minima[0] = lesser_delay(self.period_minima[0], Some(quiet));
    }

    /// The path is longer by this.
    pub fn raise_delay(&mut self, raise: Span) {
        self.minimum = self.minimum.map(|least| EmptyDelay { delay: least.delay + raise, ..least });
        self.period_minima = [None; 2];
    }

    /// Begins another period.
    pub fn rotate_period(&mut self) {
        if self.period_minima.iter().all(Option::is_some) {
            self.minimum = lesser_delay(self.period_minima[0], self.period_minima[1]);
        }
        self.period_minima = [None, self.period_minima[0].or(self.period_minima[1])];
    }
}

/// The one that is less at the lesser of their capacities.
fn lesser_delay(one: Option<EmptyDelay>, other: Option<EmptyDelay>) -> Option<EmptyDelay> {
    let capacity = one.iter().chain(&other).map(|delay| delay.capacity).min()?;
    one.into_iter().chain(other).min_by_key(|delay| delay.delay_at(0, capacity))
}

use kumade_units::{Rate, Span};

/// The delay of an empty path for packets of a range of sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Base {
    least: Option<EmptyDelay>,
    /// Least of the quiet packets of this period and of the one before.
    quiet: [Option<EmptyDelay>; 2],
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
    fn at(&self, size: u32, capacity: Rate) -> Span {
        let transmission = capacity.min(self.capacity).time_for(size.max(self.size).into());
        self.delay + (transmission - self.capacity.time_for(self.size.into()))
    }
}

impl Base {
    /// The least delay of a packet of at least so many bytes, at this capacity.
    pub fn least(&self, size: u32, capacity: Rate) -> Option<Span> {
        self.least.map(|least| least.at(size, capacity))
    }

    /// No packet took less.
    pub fn set(&mut self, least: EmptyDelay) {
        self.least = Some(least);
    }

    /// A packet was sent when nothing of ours was queued.
    pub fn note_quiet(&mut self, quiet: EmptyDelay) {
        self.quiet[0] = lesser(self.quiet[0], Some(quiet));
    }

    /// The path is longer by this.
    pub fn raise(&mut self, raise: Span) {
        self.least = self.least.map(|least| EmptyDelay { delay: least.delay + raise, ..least });
        self.quiet = [None; 2];
    }

    /// Begins another period.
    pub fn rotate(&mut self) {
        if self.quiet.iter().all(Option::is_some) {
            self.least = lesser(self.quiet[0], self.quiet[1]);
        }
        self.quiet = [None, self.quiet[0].or(self.quiet[1])];
    }
}

/// The one that is less at the lesser of their capacities.
fn lesser(one: Option<EmptyDelay>, other: Option<EmptyDelay>) -> Option<EmptyDelay> {
    let capacity = one.iter().chain(&other).map(|delay| delay.capacity).min()?;
    one.into_iter().chain(other).min_by_key(|delay| delay.at(0, capacity))
}

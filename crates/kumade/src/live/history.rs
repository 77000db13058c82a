use std::collections::VecDeque;
use std::mem;

/// What a program says of itself at one time.
pub trait Snapshot {
    /// When it was taken: how long the program had run.
    fn age_seconds(&self) -> f64;

    /// Whether nothing is new since another one.
    fn is_same(&self, other: &Self) -> bool {
        self.age_seconds() == other.age_seconds()
    }
}

/// What a program said of late: at least one snapshot.
#[derive(Debug)]
pub struct History<T> {
    earlier: VecDeque<T>,
    latest: T,
    problem: Option<String>,
}

/// Older ones than a wide terminal has columns are forgotten.
const MAX_EARLIER_SNAPSHOTS: usize = 500;

impl<T: Snapshot> History<T> {
    /// With the first snapshot.
    pub fn new(snapshot: T) -> Self {
        History { earlier: VecDeque::new(), latest: snapshot, problem: None }
    }

    /// A newer snapshot, or the same again.
    pub fn push(&mut self, snapshot: T) {
        self.problem = None;
        if snapshot.is_same(&self.latest) {
            return;
        }
        let was_started_again = snapshot.age_seconds() < self.latest.age_seconds();
        self.earlier.push_back(mem::replace(&mut self.latest, snapshot));
        if was_started_again {
            // Perhaps with other settings.
            self.earlier.clear();
        } else if self.earlier.len() > MAX_EARLIER_SNAPSHOTS {
            self.earlier.pop_front();
        }
    }

    /// There is no newer snapshot.
    pub fn set_problem(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// The last snapshot.
    pub fn latest(&self) -> &T {
        &self.latest
    }

    /// Why there is no newer one, or what else there is to say.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// All snapshots, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &T> {
        [&self.latest].into_iter().chain(self.earlier.iter().rev())
    }
}

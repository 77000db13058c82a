use gateway::status::Status;
use std::collections::VecDeque;
use std::mem;

/// What a gateway said of late: at least one status.
#[derive(Debug)]
pub struct History {
    earlier: VecDeque<Status>,
    latest: Status,
    problem: Option<String>,
}

/// Older ones than a wide terminal has columns are forgotten.
const MAX_EARLIER: usize = 500;

impl History {
    /// With the first status.
    pub fn new(status: Status) -> Self {
        History { earlier: VecDeque::new(), latest: status, problem: None }
    }

    /// A newer status, or the same again.
    pub fn push(&mut self, status: Status) {
        self.problem = None;
        if status.duration_seconds == self.latest.duration_seconds {
            return;
        }
        let is_other = status.duration_seconds < self.latest.duration_seconds;
        self.earlier.push_back(mem::replace(&mut self.latest, status));
        if is_other {
            // The gateway was started again, perhaps with other paths.
            self.earlier.clear();
        } else if self.earlier.len() > MAX_EARLIER {
            self.earlier.pop_front();
        }
    }

    /// There is no newer status.
    pub fn fail(&mut self, problem: String) {
        self.problem = Some(problem);
    }

    /// The last status.
    pub fn latest(&self) -> &Status {
        &self.latest
    }

    /// Why there is no newer one.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// All statuses, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Status> {
        [&self.latest].into_iter().chain(self.earlier.iter().rev())
    }
}

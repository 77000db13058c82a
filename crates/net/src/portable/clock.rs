use kumade_units::{Span, Time};
use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

/// What [`monotonic`] counts from; it began to run some time before, so that instants of the past have a place.
static FIRST_READING: LazyLock<Instant> = LazyLock::new(Instant::now);
const BEFORE_FIRST_READING: Span = Span::from_secs(86_400);

/// Runs steadily; for deadlines and intervals.
pub fn monotonic() -> Time {
    Time::ZERO + BEFORE_FIRST_READING + Span::from(FIRST_READING.elapsed())
}

/// As [`monotonic`]: whether that runs while the host is suspended, no portable clock says.
pub fn boottime() -> Time {
    monotonic()
}

pub(super) fn realtime() -> Time {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(Time::ZERO, |since| Time::ZERO + Span::from(since))
}

/// By how much the clock may be wrong at most: not known.
pub fn maximum_error() -> Option<Span> {
    None
}

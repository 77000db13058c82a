//! News as they happen, by server-sent events.

use crate::status::MonitorStatus;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Between two events: what people read changes no faster.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The status at once, and whenever there is another, every five seconds at most, as long as `is_admitted`.
pub(super) fn follow(
    mut status: watch::Receiver<Arc<MonitorStatus>>,
    is_admitted: impl Fn() -> bool + Send + 'static,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    status.mark_changed();
    let events = stream::unfold((status, is_admitted, Duration::ZERO), |(mut status, is_admitted, pause)| async move {
        tokio::time::sleep(pause).await;
        // The monitor ends.
        status.changed().await.ok()?;
        is_admitted().then(|| (Ok(event(&mut status)), (status, is_admitted, MIN_INTERVAL)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn event(status: &mut watch::Receiver<Arc<MonitorStatus>>) -> Event {
    let news = status.borrow_and_update().clone();
    // Numbers and texts always can be written.
    Event::default().event("status").json_data(&*news).unwrap_or_default()
}

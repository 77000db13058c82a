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

/// The status at once, and whenever there is another, every five seconds at most.
pub(super) fn follow(
    mut status: watch::Receiver<Arc<MonitorStatus>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    status.mark_changed();
    let events = stream::unfold((status, Duration::ZERO), |(mut status, pause)| async move {
        tokio::time::sleep(pause).await;
        // The monitor ends.
        status.changed().await.ok()?;
        Some((Ok(event(&mut status)), (status, MIN_INTERVAL)))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

fn event(status: &mut watch::Receiver<Arc<MonitorStatus>>) -> Event {
    let news = status.borrow_and_update().clone();
    // Numbers and texts always can be written.
    Event::default().event("status").json_data(&*news).unwrap_or_default()
}

//! News as they happen, by server-sent events.

use super::feed::{Next, StatusFeed};
use crate::status::MonitorStatus;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Between two changes: what people read changes no faster.
const MIN_INTERVAL: Duration = Duration::from_secs(5);
/// Without news, something is sent after this, so that a connection is known to be there.
const SILENCE: Duration = Duration::from_secs(15);
/// What pages are told that have missed too much.
const BEHIND: &[u8] = b"event: behind\ndata: {}\n\n";

/// What all pages are told. Copies are the same.
#[derive(Clone)]
pub(super) struct News {
    feed: Arc<Mutex<StatusFeed>>,
    /// Changes with each that is new, until the monitor ends.
    changed: watch::Receiver<()>,
}

/// Keeps the feed up to date.
pub(super) struct NewsWriter {
    feed: Arc<Mutex<StatusFeed>>,
    changed: watch::Sender<()>,
    status: watch::Receiver<Arc<MonitorStatus>>,
}

/// One that follows; besides this, one change waits for it at most.
struct Follower<A> {
    news: News,
    known: String,
    is_admitted: A,
    /// It was told that it is behind: it asks, and connects again.
    is_over: bool,
}

impl News {
    /// `instance` is different for each process.
    pub(super) fn new(instance: String, mut status: watch::Receiver<Arc<MonitorStatus>>) -> (Self, NewsWriter) {
        let feed = StatusFeed::new(instance, &status.borrow_and_update());
        let feed = Arc::new(Mutex::new(feed));
        let (sender, changed) = watch::channel(());
        let writer = NewsWriter { feed: feed.clone(), changed: sender, status };
        (News { feed, changed }, writer)
    }

    /// A JSON list of what a page needs that has this revision.
    pub(super) fn messages_after(&self, known: Option<&str>) -> Bytes {
        self.feed().messages_after(known)
    }

    /// Each change after the revision that is known, as long as `is_admitted`.
    pub(super) fn follow(mut self, known: Option<String>, is_admitted: impl Fn() -> bool + Send + 'static) -> Response {
        self.changed.mark_unchanged();
        // Who knows nothing is told what comes from now on.
        let known = known.unwrap_or_else(|| self.feed().revision().to_owned());
        let follower = Follower { news: self, known, is_admitted, is_over: false };
        let events = stream::unfold(follower, |mut follower| async move {
            let event = follower.next_event().await?;
            Some((Ok::<_, Infallible>(event), follower))
        });
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        (headers, Body::from_stream(events)).into_response()
    }

    fn feed(&self) -> MutexGuard<'_, StatusFeed> {
        // A panic elsewhere has been reported; the feed is whole after each step.
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NewsWriter {
    /// Takes each status, every five seconds at most, until the monitor ends.
    pub(super) async fn run(mut self) {
        while self.status.changed().await.is_ok() {
            let latest = self.status.borrow_and_update().clone();
            self.feed.lock().unwrap_or_else(PoisonError::into_inner).take(&latest);
            self.changed.send_replace(());
            tokio::time::sleep(MIN_INTERVAL).await;
        }
    }
}

impl<A: Fn() -> bool> Follower<A> {
    async fn next_event(&mut self) -> Option<Bytes> {
        while !self.is_over && (self.is_admitted)() {
            if let Some(event) = self.ready_event() {
                return Some(event);
            }
            match tokio::time::timeout(SILENCE, self.news.changed.changed()).await {
                Ok(Ok(())) => {}
                // The monitor ends.
                Ok(Err(_)) => return None,
                Err(_) => return Some(Bytes::from_static(b":\n\n")),
            }
        }
        None
    }

    fn ready_event(&mut self) -> Option<Bytes> {
        let feed = self.news.feed();
        let change = match feed.next_after(Some(&self.known)) {
            Next::Nothing => return None,
            Next::Change(change) => change.clone(),
            Next::All => {
                drop(feed);
                self.is_over = true;
                return Some(Bytes::from_static(BEHIND));
            }
        };
        drop(feed);
        self.known = change.revision.to_string();
        let event = [b"event: change\nid: ", change.revision.as_bytes(), b"\ndata: ", &change.json, b"\n\n"].concat();
        Some(event.into())
    }
}

use super::connections::Peer;
use super::history::{History, HistoryError};
use super::measure_request::MeasureRequests;
use super::question_room::QuestionRoom;
use super::stream::News;
use super::tls::Tls;
use super::unsent::UnsentAnswers;
use crate::access::AccessControl;
use crate::status::MonitorStatus;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::watch;

/// What the questions are answered from.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) status: watch::Receiver<Arc<MonitorStatus>>,
    pub(super) news: News,
    pub(super) measure: MeasureRequests,
    pub(super) history: History,
    pub(super) room: Arc<QuestionRoom>,
    pub(super) unsent: UnsentAnswers,
    /// It is served on the loopback interface alone.
    pub(super) is_loopback: bool,
    pub(super) access: AccessControl,
    pub(super) tls: Tls,
    /// Where it is served.
    pub(super) port: u16,
}

impl Sources {
    /// Browsers send cookies to all ports of a host: that of this monitor has a name of its own. Where connections are encrypted, browsers take
    /// one of that name from encrypted ones alone, and from no other host of the domain (`__Host-`, RFC 6265bis).
    pub(super) fn cookie_name(&self) -> String {
        let prefix = if self.tls.config().is_some() { "__Host-" } else { "" };
        format!("{prefix}kumade-monitor-{}", self.port)
    }

    /// The archive is read on another thread.
    pub(super) async fn answer<T: Serialize + Send + 'static>(
        self,
        peer: &Peer,
        question: impl FnOnce(&History) -> Result<T, HistoryError> + Send + 'static,
    ) -> Response {
        let place = self.room.enter(peer.address.ip()).await;
        let history = self.history.clone();
        match tokio::task::spawn_blocking(move || (question(&history), place).0).await {
            Ok(Ok(document)) => {
                // Numbers and texts always can be written.
                let text = serde_json::to_vec(&document).unwrap_or_default();
                ([(header::CONTENT_TYPE, "application/json")], self.unsent.body(text, peer)).into_response()
            }
            Ok(Err(error)) => error.into_response(),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "this could not be answered\n").into_response(),
        }
    }
}

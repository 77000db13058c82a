use super::history::{History, HistoryError};
use super::tls::Tls;
use crate::access::AccessControl;
use crate::status::MonitorStatus;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// What the questions are answered from.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) status: watch::Receiver<Arc<MonitorStatus>>,
    pub(super) history: History,
    /// Questions to the archive that are answered at a time.
    pub(super) room: Arc<Semaphore>,
    /// It is served on the loopback interface alone.
    pub(super) is_loopback: bool,
    pub(super) access: AccessControl,
    pub(super) tls: Tls,
    /// Browsers send cookies to all ports of a host: that of this monitor has a name of its own.
    pub(super) cookie_name: String,
}

impl Sources {
    /// The archive is read on another thread.
    pub(super) async fn answer<T: Serialize + Send + 'static>(
        self,
        question: impl FnOnce(&History) -> Result<T, HistoryError> + Send + 'static,
    ) -> Response {
        // It is never closed.
        let _place = self.room.clone().acquire_owned().await;
        let history = self.history.clone();
        match tokio::task::spawn_blocking(move || question(&history)).await {
            Ok(Ok(document)) => Json(document).into_response(),
            Ok(Err(error)) => error.into_response(),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "this could not be answered\n").into_response(),
        }
    }
}

//! Measurements that visitors ask for.

use super::sources::Sources;
use crate::access::{AccessClass, Visitor};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Somebody wants a pair to be measured now.
#[derive(Debug)]
pub(crate) struct MeasureRequest {
    /// The id.
    pub(crate) pair: String,
    pub(crate) who: String,
    /// What it waits for, or why it is not made.
    pub(crate) answer: oneshot::Sender<Result<String, String>>,
}

/// Takes them; what measures nothing drops them.
pub(crate) type MeasureRequests = Arc<dyn Fn(MeasureRequest) + Send + Sync>;

/// Only from the page itself, or from a program ([`guard::check_origin`](super::guard)), with a token of the class `write`.
pub(super) async fn measure(
    State(sources): State<Sources>,
    Extension(visitor): Extension<Visitor>,
    Path(pair): Path<String>,
) -> Response {
    if let Err(refused) = visitor.require(AccessClass::Write) {
        return refused.into_response();
    }
    if !sources.status.borrow().pairs.iter().any(|known| known.id == pair) {
        return (StatusCode::NOT_FOUND, "there is no such path\n").into_response();
    }
    let (answer, answered) = oneshot::channel();
    (sources.measure)(MeasureRequest { pair, who: visitor.name, answer });
    let (status, text) = match answered.await {
        Ok(Ok(waits_for)) => (StatusCode::ACCEPTED, waits_for),
        Ok(Err(reason)) => (StatusCode::CONFLICT, reason),
        Err(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "this host measures nothing at present: it stands by for another one, or ends".to_owned(),
        ),
    };
    (status, text + "\n").into_response()
}

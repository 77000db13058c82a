//! Measurements that visitors ask for.

use super::measure_request::MeasureRequest;
use super::sources::Sources;
use crate::access::{AccessClass, Visitor};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::sync::oneshot;

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

//! The page: its files, and the questions that it puts. All within the program; it asks no other host.

mod assets;
mod history;
mod listener;
mod query;
mod stream;

use crate::status::MonitorStatus;
use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use history::HistoryError;
pub(crate) use history::{History, PairNumbers};
use kumade_net::listener as sockets;
use listener::LimitedListener;
use query::{RangeQuery, SeriesQuery};
use serde::Serialize;
use socket2::Type;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use thiserror::Error;
use tokio::sync::{Semaphore, oneshot, watch};

/// Why the page cannot be served.
#[derive(Debug, Error)]
#[error(
    "cannot serve the page at {address}: {cause}; choose another address or port: page = \"[ADDRESS:]PORT\" in [monitor]"
)]
pub struct PageError {
    address: SocketAddr,
    cause: io::Error,
}

/// Serves the page until it is dropped.
#[derive(Debug)]
pub(crate) struct PageServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the questions are answered from.
#[derive(Clone)]
struct Sources {
    status: watch::Receiver<Arc<MonitorStatus>>,
    history: History,
    /// Questions to the archive that are answered at a time.
    room: Arc<Semaphore>,
    /// It is served on the loopback interface alone.
    is_loopback: bool,
}

const BACKLOG: i32 = 128;
/// Nothing but the page's own files; no frame of others around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl PageServer {
    /// Listens, and answers on a thread of its own.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(crate) fn start(
        address: SocketAddr,
        status: watch::Receiver<Arc<MonitorStatus>>,
        history: History,
    ) -> Result<Self, PageError> {
        let failed = |cause| PageError { address, cause };
        let socket = sockets::bind(address, Type::STREAM, |socket| socket.set_reuse_address(true)).map_err(failed)?;
        socket.listen(BACKLOG).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let listener: std::net::TcpListener = socket.into();
        let address = listener.local_addr().map_err(failed)?;
        let questions = history.readers();
        // Connections to a database end outside of the runtime: that of its client is another one.
        let last_history = history.clone();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(questions).build();
        let runtime = runtime.map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let sources = Sources {
            status,
            history,
            room: Arc::new(Semaphore::new(questions)),
            is_loopback: address.ip().is_loopback(),
        };
        let serve = async move {
            let listener = LimitedListener::new(tokio::net::TcpListener::from_std(listener)?);
            tokio::select! {
                served = axum::serve(listener, router(sources)).into_future() => served,
                _ = stopped => Ok(()),
            }
        };
        let work = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!("the page: {error}");
            }
            // A question to the archive that is still being answered is not waited for.
            runtime.shutdown_background();
            drop(last_history);
        };
        let thread = thread::Builder::new().name("page".into()).spawn(work).map_err(failed)?;
        Ok(PageServer { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        // Whoever has ended already is not told.
        self.stop.take().map(|stop| stop.send(()));
        // A panic there has been reported.
        self.thread.take().map(JoinHandle::join);
    }
}

fn router(sources: Sources) -> Router {
    Router::new()
        .route("/assets/{name}", get(assets::file))
        .route("/api/v1/status", get(status))
        .route("/api/v1/stream", get(async |State(sources): State<Sources>| stream::follow(sources.status)))
        .route("/api/v1/events", get(events))
        .route("/api/v1/pairs/{id}/series", get(series))
        .route("/api/v1/pairs/{id}/runs", get(runs))
        .route("/api/v1/runs/{id}", get(run))
        .route("/api/{*path}", get(|| async { (StatusCode::NOT_FOUND, "there is no such document\n") }))
        .fallback(get(assets::index))
        .layer(middleware::from_fn_with_state(sources.clone(), check_host))
        .layer(middleware::from_fn(add_headers))
        .with_state(sources)
}

/// A page of the loopback interface is asked for under this host's names alone: a foreign page whose name is made to lead here (DNS
/// rebinding) has another.
async fn check_host(State(sources): State<Sources>, request: axum::extract::Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_own = name == "localhost" || address.is_ok_and(|address| address.is_loopback());
    if sources.is_loopback && !is_own {
        let text = "this page is for this host alone: open it as http://localhost, or set page = \"ADDRESS:PORT\" in [monitor]\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    next.run(request).await
}

async fn add_headers(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

async fn status(State(sources): State<Sources>) -> Json<Arc<MonitorStatus>> {
    let status = sources.status.borrow().clone();
    Json(status)
}

async fn series(State(sources): State<Sources>, Path(id): Path<String>, Query(query): Query<SeriesQuery>) -> Response {
    sources.answer(move |history| history.series(&id, query.range()?, query.points())).await
}

async fn runs(State(sources): State<Sources>, Path(id): Path<String>, Query(query): Query<RangeQuery>) -> Response {
    sources.answer(move |history| history.runs(&id, query.range()?)).await
}

async fn run(State(sources): State<Sources>, Path(id): Path<i64>) -> Response {
    sources.answer(move |history| history.run(id)).await
}

async fn events(State(sources): State<Sources>, Query(query): Query<RangeQuery>) -> Response {
    sources.answer(move |history| history.events(query.range()?)).await
}

impl Sources {
    /// The archive is read on another thread.
    async fn answer<T: Serialize + Send + 'static>(
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

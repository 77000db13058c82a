//! The page: its files, and the questions that it puts. All within the program; it asks no other host.

mod admission;
mod assets;
#[cfg(test)]
mod browser_tests;
mod connections;
mod feed;
mod guard;
mod heatmap;
mod history;
mod login;
mod measure;
mod measure_request;
mod query;
mod question_room;
mod sources;
mod stream;
mod tls;
mod unsent;

use crate::access::{AccessClass, AccessControl, Visitor};
use crate::status::{MonitorStatus, ScheduleStatus};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router, middleware};
use connections::Peer;
use futures_util::future::select;
pub(crate) use history::{History, PairNumbers};
use kumade_net::{clock, listener as sockets};
pub(crate) use measure_request::{MeasureRequest, MeasureRequests};
use query::{EventsQuery, HeatmapQuery, KnownQuery, RangeQuery, SeriesQuery};
use question_room::QuestionRoom;
use serde::Serialize;
use socket2::Type;
use sources::Sources;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use stream::News;
use thiserror::Error;
pub(crate) use tls::Tls;
pub use tls::TlsError;
use tokio::sync::{oneshot, watch};
use unsent::UnsentAnswers;

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

/// Who may see the page, and how it is encrypted.
#[derive(Debug, Clone)]
pub(crate) struct PageGuards {
    pub(crate) access: AccessControl,
    pub(crate) tls: Tls,
}

const BACKLOG: i32 = 128;
/// Of a request: nothing that is sent to the page is longer.
const MAX_BODY_BYTES: usize = 64 << 10;
/// Between looks at the files of the certificate.
const CERTIFICATE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl PageServer {
    /// Listens, and answers on a thread of its own. `measure` takes what visitors ask for, `note` is told what has become of a certificate that has changed.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(crate) fn start(
        address: SocketAddr,
        status: watch::Receiver<Arc<MonitorStatus>>,
        history: History,
        guards: PageGuards,
        measure: MeasureRequests,
        note: impl Fn(String) + Send + 'static,
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
        let PageGuards { access, tls } = guards;
        // Of this process alone: another one begins later.
        let (news, news_writer) = News::new(format!("{:x}", clock::realtime().as_nanos()), status.clone());
        let sources = Sources {
            status,
            news,
            measure,
            history,
            room: Arc::new(QuestionRoom::new(questions)),
            unsent: UnsentAnswers::new(),
            is_loopback: address.ip().is_loopback(),
            access,
            tls: tls.clone(),
            port: address.port(),
        };
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::spawn(news_writer.run());
            let follow = pin!(follow_certificate(tls.clone(), note));
            let answer = pin!(connections::serve(listener, tls, router(sources)));
            select(select(follow, answer), stopped).await;
            Ok::<_, io::Error>(())
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
    let answers = Router::new()
        .route("/api/v1/status", get(status))
        .route("/api/v1/changes", get(changes))
        .route("/api/v1/stream", get(news))
        .route("/api/v1/schedule", get(schedule))
        .route("/api/v1/events", get(events))
        .route("/api/v1/heatmap", get(heatmap))
        .route("/api/v1/pairs/{id}/series", get(series))
        .route("/api/v1/pairs/{id}/runs", get(runs))
        .route("/api/v1/pairs/{id}/measure", post(measure::measure))
        .route("/api/v1/runs/{id}", get(run))
        .route("/api/v1/visitor", get(visitor))
        .route("/api/v1/audit", get(audit))
        .route("/api/{*path}", any(|| async { (StatusCode::NOT_FOUND, "there is no such document\n") }))
        .route_layer(middleware::from_fn_with_state(sources.clone(), guard::check_access));
    answers
        .route("/assets/{name}", get(assets::file))
        .route(login::FORM_PATH, get(login::form).post(login::log_in))
        .route("/logout", post(login::log_out))
        .fallback(get(login::page).post(login::log_in))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn(guard::limit_time))
        .layer(middleware::from_fn(guard::check_origin))
        .layer(middleware::from_fn_with_state(sources.clone(), guard::check_host))
        .layer(middleware::from_fn(guard::add_headers))
        .with_state(sources)
}

/// New connections get a certificate soon after it was renewed.
async fn follow_certificate(tls: Tls, note: impl Fn(String)) {
    loop {
        tokio::time::sleep(CERTIFICATE_CHECK_INTERVAL).await;
        match tls.refresh() {
            Some(Ok(())) => note("the certificate has been read again".to_owned()),
            Some(Err(error)) => note(format!("the certificate stays as it was: {error}")),
            None => {}
        }
    }
}

async fn status(State(sources): State<Sources>) -> Json<Arc<MonitorStatus>> {
    let status = sources.status.borrow().clone();
    Json(status)
}

async fn changes(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    Query(query): Query<KnownQuery>,
) -> Response {
    let messages = sources.news.messages_after(query.after.as_deref());
    ([(header::CONTENT_TYPE, "application/json")], sources.unsent.body(messages, &peer)).into_response()
}

/// As long as the visitor may see it. A browser that connects again says what it has seen.
async fn news(
    State(sources): State<Sources>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<KnownQuery>,
    headers: HeaderMap,
) -> Response {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let Sources { news, access, .. } = sources;
    news.follow(last.or(query.after), move || access.is_admitted(&visitor))
}

async fn schedule(State(sources): State<Sources>) -> Json<ScheduleStatus> {
    let schedule = sources.status.borrow().schedule.clone();
    Json(schedule)
}

async fn heatmap(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    Query(query): Query<HeatmapQuery>,
) -> Response {
    let pairs = query.choose(sources.status.borrow().pairs.iter().map(|pair| pair.id.clone()));
    sources.answer(&peer, move |history| history.heatmap(pairs, query.show, query.range()?, query.points())).await
}

/// Who asks.
#[derive(Serialize)]
struct VisitorDocument {
    name: String,
    class: AccessClass,
    /// There is a session, which can be ended.
    is_logged_in: bool,
    /// A token allows more.
    may_log_in: bool,
}

async fn visitor(State(sources): State<Sources>, Extension(visitor): Extension<Visitor>) -> Json<VisitorDocument> {
    let (is_logged_in, may_log_in) = (visitor.is_session(), sources.access.has_tokens() && visitor.is_anybody());
    Json(VisitorDocument { name: visitor.name, class: visitor.class, is_logged_in, may_log_in })
}

async fn audit(
    State(sources): State<Sources>,
    Extension(visitor): Extension<Visitor>,
    Extension(peer): Extension<Peer>,
    Query(query): Query<RangeQuery>,
) -> Response {
    match visitor.require(AccessClass::Admin) {
        Ok(()) => sources.answer(&peer, move |history| history.audit(query.range_or_all()?)).await,
        Err(refused) => refused.into_response(),
    }
}

async fn series(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    Query(query): Query<SeriesQuery>,
) -> Response {
    sources.answer(&peer, move |history| history.series(&id, query.range()?, query.points())).await
}

async fn runs(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    Query(query): Query<RangeQuery>,
) -> Response {
    sources.answer(&peer, move |history| history.runs(&id, query.range()?)).await
}

async fn run(State(sources): State<Sources>, Extension(peer): Extension<Peer>, Path(id): Path<i64>) -> Response {
    sources.answer(&peer, move |history| history.run(id)).await
}

async fn events(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    Query(query): Query<EventsQuery>,
) -> Response {
    sources.answer(&peer, move |history| history.events(query.pair.as_deref(), query.range()?)).await
}

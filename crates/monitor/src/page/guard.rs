//! What stands before each answer: by what name the page was asked for, from which page, and who asks.

use super::connections::Peer;
use super::sources::Sources;
use crate::access::{AccessClass, Credential, Refusal, Visitor};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use kumade_daemon::is_own_host;
use std::time::Duration;

/// Nothing but the page's own files; no frame of others around it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Until an answer begins: the year of a pair takes less than a second.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(60);

/// A page is asked for by the names that it has.
pub(super) async fn check_host(State(sources): State<Sources>, request: Request, next: Next) -> Response {
    let (host, is_loopback) = (host(request.headers()), sources.is_loopback);
    if !is_own_host(host, is_loopback, |name| sources.access.is_own_name(name, is_loopback)) {
        let text = "this page has another name: open it by its address, or as http://localhost on this host, or write names = [\"NAME\"] in [access]\n";
        return (StatusCode::MISDIRECTED_REQUEST, text).into_response();
    }
    next.run(request).await
}

/// What changes something is asked for by the page itself, or by a program; never by a page of others. Old browsers say so by `Origin`
/// alone.
pub(super) async fn check_origin(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(header::ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host));
    let is_own = match text(HeaderName::from_static("sec-fetch-site")) {
        Some(site) => ["same-origin", "none"].contains(&site),
        None => origin.is_none_or(|origin| origin == host(headers)),
    };
    if !is_own && ![Method::GET, Method::HEAD].contains(request.method()) {
        return (StatusCode::FORBIDDEN, "a page of others cannot ask for this\n").into_response();
    }
    next.run(request).await
}

/// A request whose body comes too slowly is left. (What is answered by a stream begins at once.)
pub(super) async fn limit_time(request: Request, next: Next) -> Response {
    let answered = tokio::time::timeout(MAX_ANSWER_TIME, next.run(request)).await;
    answered.unwrap_or_else(|_| (StatusCode::REQUEST_TIMEOUT, "this took too long\n").into_response())
}

pub(super) async fn add_headers(request: Request, next: Next) -> Response {
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

/// Only who may see what is monitored goes on, as a [`Visitor`].
pub(super) async fn check_access(State(sources): State<Sources>, mut request: Request, next: Next) -> Response {
    let Some(peer) = request.extensions().get::<Peer>().map(|peer| peer.address.ip()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    match sources.access.admit(sources.credential(request.headers()), peer) {
        Ok(visitor) => {
            request.extensions_mut().insert(visitor);
            let mut response = next.run(request).await;
            // What one visitor may see is kept for no other one.
            response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
            response
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

impl Sources {
    /// A token, else the secret of a session.
    pub(super) fn credential<'h>(&self, headers: &'h HeaderMap) -> Credential<'h> {
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = authorization.and_then(|value| value.split_once(' '));
        if let Some((_, token)) = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")) {
            return Credential::Bearer(token);
        }
        self.session_secret(headers).map_or(Credential::None, Credential::Session)
    }

    pub(super) fn session_secret<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let own = self.cookie_name();
        cookies.find(|(name, _)| *name == own).map(|(_, secret)| secret)
    }
}

impl Visitor {
    /// Goes on only with what a visitor of this class may.
    pub(super) fn require(&self, class: AccessClass) -> Result<(), Forbidden> {
        if self.class >= class { Ok(()) } else { Err(Forbidden(class)) }
    }
}

/// It takes a token of this class.
#[derive(Debug)]
pub(super) struct Forbidden(AccessClass);

impl IntoResponse for Forbidden {
    fn into_response(self) -> Response {
        (StatusCode::FORBIDDEN, format!("this takes a token of the class {:?}\n", self.0.name())).into_response()
    }
}

impl Refusal {
    /// What to say, and what to do.
    pub(super) fn text(self) -> &'static str {
        match self {
            Refusal::NoToken => "this takes a token: log in, or send Authorization: Bearer TOKEN",
            Refusal::WrongToken => "this token is not known",
            Refusal::TooManyAttempts => "too many wrong tokens have come from your network: try again in a minute",
        }
    }

    pub(super) fn status(self) -> StatusCode {
        match self {
            Refusal::NoToken | Refusal::WrongToken => StatusCode::UNAUTHORIZED,
            Refusal::TooManyAttempts => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// What goes with it.
    pub(super) fn header(self) -> (HeaderName, &'static str) {
        match self {
            Refusal::NoToken | Refusal::WrongToken => (header::WWW_AUTHENTICATE, "Bearer"),
            Refusal::TooManyAttempts => (header::RETRY_AFTER, "60"),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status(), [self.header()], format!("{}\n", self.text())).into_response()
    }
}

//! Browsers log in by a form, and out.

use super::assets;
use super::connections::Peer;
use super::sources::Sources;
use crate::access::{AccessControl, Refusal};
use axum::Extension;
use axum::extract::{Form, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;

/// What the form sends.
#[derive(Deserialize)]
pub(super) struct LoginForm {
    token: String,
}

/// Where the form always is.
pub(super) const FORM_PATH: &str = "/login";
/// Of a session's secret.
const SECRET_BYTES: usize = 32;

/// The page, or the form that asks for a token first: whoever has logged in is where they wanted to be.
pub(super) async fn page(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    match sources.access.admit(sources.credential(&headers), peer.address.ip()) {
        Ok(_) => assets::index(),
        Err(refusal) => ask(refusal),
    }
}

/// The form, for who may see something without it.
pub(super) async fn form() -> Response {
    assets::login("")
}

/// What the form sends, to the address of the page that was wanted.
pub(super) async fn log_in(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    wanted: Uri,
    Form(form): Form<LoginForm>,
) -> Response {
    let Some(secret) = new_secret() else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    if let Err(refusal) = sources.access.log_in(&form.token, &secret, peer.address.ip()) {
        return ask(refusal);
    }
    let path = wanted.path_and_query().map_or("/", |path| path.as_str());
    // Two slashes would be another host.
    let is_page = path.starts_with('/') && !path[1..].starts_with(['/', '\\']) && path != FORM_PATH;
    let path = if is_page { path } else { "/" };
    let lifetime = AccessControl::session_lifetime().to_duration().as_secs();
    let mut response = Redirect::to(path).into_response();
    sources.set_cookie(&mut response, &secret, lifetime);
    response
}

/// Ends the session, if there is one.
pub(super) async fn log_out(
    State(sources): State<Sources>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    if let Some(secret) = sources.session_secret(&headers) {
        sources.access.log_out(secret, peer.address.ip());
    }
    let mut response = Redirect::to("/").into_response();
    sources.set_cookie(&mut response, "", 0);
    response
}

fn ask(refusal: Refusal) -> Response {
    // Whoever has sent nothing yet is told by the form.
    let message = if refusal == Refusal::NoToken { "" } else { refusal.text() };
    (refusal.status(), [refusal.header()], assets::login(message)).into_response()
}

fn new_secret() -> Option<String> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Sources {
    /// Scripts do not see it, and other sites' pages do not send it.
    fn set_cookie(&self, response: &mut Response, secret: &str, lifetime_seconds: u64) {
        let secure = if self.tls.config().is_some() { "; Secure" } else { "" };
        let name = self.cookie_name();
        let cookie = format!("{name}={secret}; Path=/; Max-Age={lifetime_seconds}; HttpOnly; SameSite=Strict{secure}");
        // Digits and letters are a header.
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
    }
}

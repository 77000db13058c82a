//! The files of the page, within the program.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! asset {
    ($name:literal, $path:literal, $kind:expr) => {
        Asset { name: $name, kind: $kind, content: include_bytes!(concat!("../../page/", $path)) }
    };
}

const INDEX: Asset = asset!("index.html", "index.html", HTML);
const LOGIN: &str = include_str!("../../page/login.html");
/// Where the message stands in the form.
const LOGIN_MESSAGE: &str = "{message}";
const ASSETS: [Asset; 13] = [
    asset!("app.js", "app.js", SCRIPT),
    asset!("dom.js", "dom.js", SCRIPT),
    asset!("format.js", "format.js", SCRIPT),
    asset!("heatmap.js", "heatmap.js", SCRIPT),
    asset!("matrix.js", "matrix.js", SCRIPT),
    asset!("news.js", "news.js", SCRIPT),
    asset!("plots.js", "plots.js", SCRIPT),
    asset!("run.js", "run.js", SCRIPT),
    asset!("style.css", "style.css", STYLE),
    asset!("icon.svg", "icon.svg", "image/svg+xml"),
    asset!("uPlot.iife.min.js", "vendor/uPlot.iife.min.js", SCRIPT),
    asset!("uPlot.min.css", "vendor/uPlot.min.css", STYLE),
    asset!("uPlot.LICENSE", "vendor/uPlot.LICENSE", "text/plain; charset=utf-8"),
];

/// The page itself, which shows what its address says.
pub(super) fn index() -> Response {
    INDEX.response()
}

/// The form that asks for a token, with a message, which is no HTML.
pub(super) fn login(message: &str) -> Response {
    let headers = [(header::CONTENT_TYPE, HTML), (header::CACHE_CONTROL, "no-store")];
    (headers, LOGIN.replace(LOGIN_MESSAGE, message)).into_response()
}

/// One of its files.
pub(super) async fn file(Path(name): Path<String>) -> Response {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    asset.map_or_else(|| (StatusCode::NOT_FOUND, "there is no such file\n").into_response(), Asset::response)
}

impl Asset {
    fn response(&self) -> Response {
        // Another version of the program has other files under the same names.
        let headers = [(header::CONTENT_TYPE, self.kind), (header::CACHE_CONTROL, "no-cache")];
        (headers, self.content).into_response()
    }
}

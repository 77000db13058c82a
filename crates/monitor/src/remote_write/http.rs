//! Requests to a receiver.

use super::RemoteWriteConfig;
use super::delivery::Answer;
use kumade_units::{Span, Time};
use rustls::crypto::ring;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use ureq::http::{Response, header};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

/// Where systems have the certificates of authorities: Debian and Alpine; Fedora; openSUSE.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];
const TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of what a receiver says why.
const MAX_REASON_BYTES: u64 = 4096;
const MAX_REASON_CHARACTERS: usize = 300;

/// Sends requests.
#[derive(Debug)]
pub struct RemoteWriteClient {
    agent: Agent,
    config: RemoteWriteConfig,
}

/// Why nothing can be sent at all.
#[derive(Debug, Error)]
pub enum RemoteWriteError {
    /// The certificates of authorities cannot be read.
    #[error("cannot read the certificates of authorities in {}: {cause}; name another file: ca = \"FILE\" in [remote-write]", path.display())]
    Authorities {
        /// Their file.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// There are none.
    #[error(
        "this system has no certificates of authorities for https: install ca-certificates, or name a file: ca = \"FILE\" in [remote-write]"
    )]
    NoAuthorities,
}

impl RemoteWriteClient {
    /// Connects with the first request.
    ///
    /// # Errors
    /// There are no certificates to judge the receiver's by.
    pub fn new(config: RemoteWriteConfig) -> Result<Self, RemoteWriteError> {
        let authorities = if config.url.starts_with("https:") { read_authorities(&config)? } else { Vec::new() };
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&authorities))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("kumade/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build()
            .new_agent();
        Ok(RemoteWriteClient { agent, config })
    }

    /// Sends a request; returns what came of it, and what time it is at the receiver.
    pub fn send(&self, body: &[u8]) -> (Answer, Option<Time>) {
        let mut request = self
            .agent
            .post(&self.config.url)
            .header(header::CONTENT_ENCODING, "snappy")
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header("X-Prometheus-Remote-Write-Version", "0.1.0");
        for (name, value) in &self.config.headers {
            request = request.header(name, value);
        }
        if let Some(token) = &self.config.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        match request.send(body) {
            Ok(response) => read_response(response),
            Err(error) => (Answer::Unavailable { reason: error.to_string(), wait: None }, None),
        }
    }
}

fn read_response(mut response: Response<Body>) -> (Answer, Option<Time>) {
    let text_of = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let date = text_of(header::DATE).and_then(parse_date);
    let wait = text_of(header::RETRY_AFTER)
        .and_then(|text| text.parse().ok())
        .map(|seconds: u32| Span::from_secs(seconds.into()));
    let status = response.status().as_u16();
    // It is only said.
    let text = response.body_mut().with_config().limit(MAX_REASON_BYTES).lossy_utf8(true).read_to_string();
    (classify(status, text.unwrap_or_default().trim(), wait), date)
}

/// What a status means. Refusals are told from what may pass: a wrong address or token says nothing of what is sent.
fn classify(status: u16, text: &str, wait: Option<Span>) -> Answer {
    let text: String = text.chars().take(MAX_REASON_CHARACTERS).collect();
    let reason = format!("the receiver answers {status}: {text}");
    match status {
        200..=299 => Answer::Accepted,
        400 | 409 | 413 | 422 => Answer::Refused(reason),
        // Prometheus 2.42 says so by a status that means to try again (tsdb's ErrTooOldSample).
        500 if ["too old sample", "out of bounds", "out of order"].iter().any(|words| text.contains(words)) => {
            Answer::Refused(reason)
        }
        502..=504 => Answer::Unavailable { reason, wait },
        500..=599 => Answer::Failed(reason),
        _ => Answer::Unavailable { reason, wait },
    }
}

/// RFC 9110.
fn parse_date(text: &str) -> Option<Time> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    i64::try_from(date.timestamp().as_nanosecond()).ok().map(Time::from_nanos)
}

fn read_authorities(config: &RemoteWriteConfig) -> Result<Vec<Certificate<'static>>, RemoteWriteError> {
    let path = match &config.authorities {
        Some(path) => path.clone(),
        None => {
            let known = SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
            known.ok_or(RemoteWriteError::NoAuthorities)?.to_owned()
        }
    };
    let failed = |cause: String| RemoteWriteError::Authorities { path: path.clone(), cause };
    let text = fs::read(&path).map_err(|error| failed(error.to_string()))?;
    // One that nobody understands is passed over, as other programs do.
    let certificates = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() { Err(failed("it has none".to_owned())) } else { Ok(certificates) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_from_what_may_pass() {
        let refused = |status, text| matches!(classify(status, text, None), Answer::Refused(_));
        assert!(refused(400, "out of order sample") && refused(422, "") && refused(413, ""));
        assert!(refused(500, "too old sample"), "Prometheus 2.42");
        assert!(!refused(500, "no space left on device") && !refused(503, "out of order"));
        for status in [301, 401, 403, 404, 429, 503] {
            assert!(matches!(classify(status, "", None), Answer::Unavailable { .. }), "{status}");
        }
        assert_eq!(classify(204, "", None), Answer::Accepted);
    }

    #[test]
    fn dates_of_answers_are_read() {
        let time = parse_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(time, Time::from_nanos(784_111_777_000_000_000));
        assert_eq!(parse_date("yesterday"), None);
    }
}

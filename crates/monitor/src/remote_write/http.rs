//! Requests to a receiver.

use super::RemoteWriteConfig;
use super::delivery::Answer;
use crate::https::{self, AuthoritiesError};
use kumade_units::{Span, Time};
use std::time::Duration;
use ureq::http::{Response, header};
use ureq::{Agent, Body};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Of what a receiver says why.
const MAX_REASON_BYTES: u64 = 4096;
const MAX_REASON_CHARACTERS: usize = 300;

/// Sends requests.
#[derive(Debug)]
pub struct RemoteWriteClient {
    agent: Agent,
    config: RemoteWriteConfig,
}

impl RemoteWriteClient {
    /// Connects with the first request.
    ///
    /// # Errors
    /// There are no certificates to judge the receiver's by.
    pub fn new(config: RemoteWriteConfig) -> Result<Self, AuthoritiesError> {
        Ok(RemoteWriteClient { agent: https::agent(&config.url, config.authorities.as_deref(), TIMEOUT)?, config })
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
            Ok(response) => self.read_response(response),
            Err(error) => (Answer::Unavailable { reason: error.to_string(), wait: None }, None),
        }
    }

    fn read_response(&self, mut response: Response<Body>) -> (Answer, Option<Time>) {
        let text_of = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let date = text_of(header::DATE).and_then(parse_date);
        let wait = text_of(header::RETRY_AFTER)
            .and_then(|text| text.parse().ok())
            .map(|seconds: u32| Span::from_secs(seconds.into()));
        let status = response.status().as_u16();
        // It is only said.
        let text = response.body_mut().with_config().limit(MAX_REASON_BYTES).lossy_utf8(true).read_to_string();
        (self.classify(status, &text.unwrap_or_default(), wait), date)
    }

    /// What a status means. Refusals are told from what may pass: a wrong address or token says nothing of what is sent.
    fn classify(&self, status: u16, text: &str, wait: Option<Span>) -> Answer {
        let reason = || format!("the receiver answers {status}: {}", self.printable(text));
        match status {
            200..=299 => Answer::Accepted,
            400 | 409 | 413 | 422 => Answer::Refused(reason()),
            // Prometheus 2.42 says so by a status that means to try again (tsdb's ErrTooOldSample).
            500 if ["too old sample", "out of bounds", "out of order"].iter().any(|words| text.contains(words)) => {
                Answer::Refused(reason())
            }
            502..=504 => Answer::Unavailable { reason: reason(), wait },
            500..=599 => Answer::Failed(reason()),
            _ => Answer::Unavailable { reason: reason(), wait },
        }
    }

    /// What a receiver says: in one line, and without the token and what else it was sent in headers, which a proxy may quote.
    fn printable(&self, text: &str) -> String {
        let secrets = self.config.headers.iter().map(|(_, value)| value).chain(&self.config.token);
        let hidden = secrets
            .filter(|secret| !secret.is_empty())
            .fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "…"));
        https::answer_words(&hidden, MAX_REASON_CHARACTERS)
    }
}

/// RFC 9110.
fn parse_date(text: &str) -> Option<Time> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    i64::try_from(date.timestamp().as_nanosecond()).ok().map(Time::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> RemoteWriteClient {
        // One value stands in what Prometheus says, too.
        let headers = [("X-Scope", "tenant-7"), ("X-Empty", ""), ("X-Short", "old")];
        let config = RemoteWriteConfig {
            url: "http://127.0.0.1:9/write".to_owned(),
            headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            token: Some("a-token".to_owned()),
            authorities: None,
            max_age: Span::from_secs(60),
        };
        RemoteWriteClient::new(config).unwrap()
    }

    #[test]
    fn refusals_are_told_from_what_may_pass() {
        let client = client();
        let refused = |status, text| matches!(client.classify(status, text, None), Answer::Refused(_));
        assert!(refused(400, "out of order sample") && refused(422, "") && refused(413, ""));
        assert!(refused(500, "too old sample"), "Prometheus 2.42");
        assert!(!refused(500, "no space left on device") && !refused(503, "out of order"));
        for status in [301, 401, 403, 404, 429, 503] {
            assert!(matches!(client.classify(status, "", None), Answer::Unavailable { .. }), "{status}");
        }
        assert_eq!(client.classify(204, "", None), Answer::Accepted);
    }

    /// A proxy may quote what it was sent.
    #[test]
    fn what_a_receiver_says_is_one_line_without_secrets() {
        let client = client();
        let said = client.printable(" wrong: Bearer a-token\r\nof tenant-7\u{1b}[31m ");
        assert_eq!(said, "wrong: Bearer …of …[31m");
        assert_eq!(client.printable(&"x".repeat(1000)).len(), MAX_REASON_CHARACTERS);
    }

    #[test]
    fn dates_of_answers_are_read() {
        let time = parse_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(time, Time::from_nanos(784_111_777_000_000_000));
        assert_eq!(parse_date("yesterday"), None);
    }
}

//! A web server that is told of alerts.

use crate::https::{self, AuthoritiesError};
use kumade_alerts::Failure;
use kumade_units::Span;
use std::path::Path;
use ureq::Agent;
use ureq::http::header;

/// Of what it answers why.
const MAX_ANSWER_BYTES: u64 = 4096;
const MAX_ANSWER_CHARACTERS: usize = 200;

/// Sends messages to one address.
#[derive(Debug)]
pub(super) struct Webhook {
    agent: Agent,
    url: String,
}

impl Webhook {
    pub(super) fn new(url: &str, authorities: Option<&Path>, timeout: Span) -> Result<Self, AuthoritiesError> {
        Ok(Webhook { agent: https::agent(url, authorities, timeout.to_duration())?, url: url.to_owned() })
    }

    pub(super) fn send(&self, message: &str) -> Result<(), Failure> {
        let request = self.agent.post(&self.url).header(header::CONTENT_TYPE, "application/json");
        let mut response = request
            .send(message)
            .map_err(|error| Failure { reason: format!("cannot be reached: {error}"), is_refusal: false })?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let text = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).lossy_utf8(true).read_to_string();
        let words = https::answer_words(&text.unwrap_or_default(), MAX_ANSWER_CHARACTERS);
        // These are about the message, not about the address or who sends it.
        let is_refusal = matches!(status, 400 | 413 | 415 | 422);
        Err(Failure { reason: format!("answers {status} {words}").trim_end().to_owned(), is_refusal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::{ServerConfig, ServerConnection, Stream};
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::thread;

    /// A server with a certificate for this name: its port, its certificate as PEM, and what it is sent.
    fn serve_tls(name: &str) -> (u16, String, mpsc::Receiver<String>) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let config = Arc::new(config.with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap());
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (told, heard) = mpsc::channel();
        thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let mut connection = ServerConnection::new(config.clone()).unwrap();
                let mut stream = Stream::new(&mut connection, &mut socket);
                let mut buffer = [0; 4096];
                let mut text = String::new();
                while !text.ends_with("end") {
                    let Ok(length @ 1..) = stream.read(&mut buffer) else { break };
                    text += &String::from_utf8_lossy(&buffer[..length]);
                }
                if !text.is_empty() {
                    told.send(text).unwrap();
                    let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n");
                    let _ = stream.flush();
                }
            }
        });
        (port, made.cert.pem(), heard)
    }

    fn send(port: u16, authority: &str) -> Failure {
        let path = std::env::temp_dir().join(format!("kumade-webhook-{}-{port}.pem", std::process::id()));
        fs::write(&path, authority).unwrap();
        let webhook =
            Webhook::new(&format!("https://localhost:{port}/hook"), Some(&path), Span::from_secs(60)).unwrap();
        fs::remove_file(&path).unwrap();
        webhook.send("the end").expect_err("none of them takes it")
    }

    #[test]
    fn a_webhook_without_a_certificate_that_counts_is_told_nothing() {
        let (port, own, heard) = serve_tls("localhost");
        let (_, of_another, _) = serve_tls("localhost");
        let failure = send(port, &of_another);
        assert!(failure.reason.contains("cannot be reached"), "{failure:?}");
        let (wrong_port, wrong, wrong_heard) = serve_tls("elsewhere.example");
        let failure = send(wrong_port, &wrong);
        assert!(failure.reason.contains("cannot be reached"), "{failure:?}");
        assert!(wrong_heard.try_recv().is_err() && heard.try_recv().is_err());
        // Its own is taken; where it sends us is not followed.
        let failure = send(port, &own);
        assert_eq!(failure.reason, "answers 302");
        let request = heard.recv().unwrap();
        assert!(request.starts_with("POST /hook HTTP/1.1") && request.ends_with("the end"), "{request}");
        assert!(heard.try_recv().is_err());
    }
}

//! Requests to web servers that the configuration names.

use rustls::crypto::ring;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Where systems have the certificates of authorities: Debian and Alpine; Fedora; openSUSE.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem"];

/// Why no server's certificate could be believed.
#[derive(Debug, Error)]
pub enum AuthoritiesError {
    /// The certificates of authorities cannot be read.
    #[error("cannot read the certificates of authorities in {}: {cause}; name another file: ca = \"FILE\"", path.display())]
    Unreadable {
        /// Their file.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// There are none.
    #[error(
        "this system has no certificates of authorities for https: install ca-certificates, or name a file: ca = \"FILE\""
    )]
    Missing,
}

/// What a server says why, in one line of at most so many characters.
pub(crate) fn answer_words(text: &str, max_characters: usize) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(max_characters).collect()
}

/// What sends requests to `url`. `authorities` is the file of those whose certificates count; the system's where there is none.
///
/// # Errors
/// The address is one of https, and there are no certificates to judge the server's by.
pub(crate) fn agent(url: &str, authorities: Option<&Path>, timeout: Duration) -> Result<Agent, AuthoritiesError> {
    let authorities = if url.starts_with("https:") { read_authorities(authorities)? } else { Vec::new() };
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&authorities))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    // A redirect would send what is said to where nobody has said that it may go.
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .timeout_global(Some(timeout))
        .user_agent(concat!("kumade/", env!("CARGO_PKG_VERSION")))
        .tls_config(tls)
        .build();
    Ok(config.new_agent())
}

fn read_authorities(path: Option<&Path>) -> Result<Vec<Certificate<'static>>, AuthoritiesError> {
    let known = || SYSTEM_AUTHORITIES.into_iter().map(Path::new).find(|path| path.exists());
    let path = path.or_else(known).ok_or(AuthoritiesError::Missing)?;
    let failed = |cause: String| AuthoritiesError::Unreadable { path: path.to_owned(), cause };
    let text = fs::read(path).map_err(|error| failed(error.to_string()))?;
    // One that nobody understands is passed over, as other programs do.
    let certificates = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() { Err(failed("it has none".to_owned())) } else { Ok(certificates) }
}

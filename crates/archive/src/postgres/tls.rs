//! Connections that are encrypted: the server shows a certificate of an authority that counts, for the name by which it was reached.

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client};

/// More than the certificates of all authorities of a system.
const MAX_PEM_BYTES: u64 = 4 << 20;

/// Encrypts connections to servers that authorities vouch for.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

/// The same to a server of this name.
pub(super) struct NamedTls(TlsConnector, ServerName<'static>);

/// An encrypted connection.
pub(super) struct EncryptedStream<S>(client::TlsStream<S>);

impl Tls {
    /// Of the authorities in a file of PEM.
    ///
    /// # Errors
    /// It cannot be read, or has no certificate.
    pub(super) fn from_authorities(file: &Path) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", file.display()));
        let mut text = Vec::new();
        File::open(file).and_then(|file| file.take(MAX_PEM_BYTES).read_to_end(&mut text)).map_err(named)?;
        let mut authorities = RootCertStore::empty();
        // One that nobody understands is passed over, as other programs do.
        authorities.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok));
        if authorities.is_empty() {
            return Err(named(io::Error::new(io::ErrorKind::InvalidData, "it has no certificate in PEM")));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(authorities)
            .with_no_client_auth();
        Ok(Tls(TlsConnector::from(Arc::new(config))))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = EncryptedStream<S>;
    type TlsConnect = NamedTls;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, name: &str) -> Result<NamedTls, InvalidDnsNameError> {
        Ok(NamedTls(self.0.clone(), ServerName::try_from(name.to_owned())?))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for NamedTls {
    type Stream = EncryptedStream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedStream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let NamedTls(connector, name) = self;
        Box::pin(async move { connector.connect(name, stream).await.map(EncryptedStream) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for EncryptedStream<S> {
    /// The certificate was checked: who the server is does not rest on the password.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for EncryptedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for EncryptedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Why a server is not trusted, and what to do about it; none where that is not what failed.
pub(super) fn refusal(error: &postgres::Error) -> Option<String> {
    let source = error.source()?;
    if source.to_string() == "server does not support TLS" {
        return Some(format!("{source}: set ssl = on in its postgresql.conf"));
    }
    let cause = source.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(certificate) = cause else { return Some(cause.to_string()) };
    let remedy = match certificate {
        // One that was made again may have the name of the one before.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "take the file of the authority that has signed it; of one that signs itself, its own"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "reach the server by a name that its certificate has as subjectAltName, or give it a certificate for this name"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "renew it, or set this host's clock if that is wrong"
        }
        _ => "give the server a certificate that an authority has signed, with its name as subjectAltName",
    };
    Some(format!("the server's certificate is refused: {certificate}; {remedy}"))
}

//! The certificate of the page, which is read again when its files have changed.

use crate::config::TlsFiles;
use kumade_files::{SecretFileError, read_secret};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Why there is no encryption.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificate cannot be read.
    #[error("cannot read {} of [tls]: {cause}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The key cannot be read, or others may.
    #[error(transparent)]
    Key(#[from] SecretFileError),
    /// A file has no certificate, or no key.
    #[error("{} has no {what} in PEM: {cause}", path.display())]
    Pem {
        /// Which file.
        path: PathBuf,
        /// What it should have.
        what: &'static str,
        /// What is wrong.
        cause: pem::Error,
    },
    /// Certificate and key do not belong together, or are of an unknown kind.
    #[error("cannot use the certificate {} with the key {}: {cause}", files.certificate.display(), files.key.display())]
    Unusable {
        /// Which.
        files: TlsFiles,
        /// What is wrong.
        cause: rustls::Error,
    },
}

/// The certificate that new connections get; copies are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tls(Arc<Mutex<Option<Identity>>>);

#[derive(Debug)]
struct Identity {
    files: TlsFiles,
    /// As the files were when they were looked at last.
    stamps: [Option<FileStamp>; 2],
    config: Arc<ServerConfig>,
}

/// By which another content of a file is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

/// More than any chain of certificates.
const MAX_PEM_BYTES: u64 = 1 << 20;

impl Tls {
    /// Reads the files, if there are to be any. New connections get what they have; if they cannot be used, nothing changes.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn load(&self, files: Option<&TlsFiles>) -> Result<(), TlsError> {
        let identity = files.map(Identity::read).transpose()?;
        *self.identity() = identity;
        Ok(())
    }

    /// Reads the files again if they have changed; says whether it has, or why they cannot be used: once for each change.
    pub(super) fn refresh(&self) -> Option<Result<(), TlsError>> {
        let mut identity = self.identity();
        let known = identity.as_mut()?;
        let stamps = stamps(&known.files);
        if stamps == known.stamps {
            return None;
        }
        known.stamps = stamps;
        Some(Identity::read(&known.files).map(|read| *known = read))
    }

    /// For a connection that begins; none where it is not encrypted.
    pub(super) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.identity().as_ref().map(|identity| identity.config.clone())
    }

    fn identity(&self) -> MutexGuard<'_, Option<Identity>> {
        // A panic elsewhere has been reported; what is there is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TlsFiles {
    /// Whether they can be used.
    ///
    /// # Errors
    /// They cannot.
    pub fn check(&self) -> Result<(), TlsError> {
        Identity::read(self).map(drop)
    }
}

impl Identity {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        // Before they are read: what changes meanwhile is read again.
        let stamps = stamps(files);
        let pem = |path: &Path, what| {
            let path = path.to_owned();
            move |cause| TlsError::Pem { path, what, cause }
        };
        let text = read_pem(&files.certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain = chain.and_then(|chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) });
        let chain = chain.map_err(pem(&files.certificate, "certificate"))?;
        let text = read_secret(&files.key, "private key", MAX_PEM_BYTES)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(pem(&files.key, "private key"))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|versions| versions.with_no_client_auth().with_single_cert(chain, key));
        let config = config.map_err(|cause| TlsError::Unusable { files: files.clone(), cause })?;
        Ok(Identity { files: files.clone(), stamps, config: Arc::new(config) })
    }
}

fn read_pem(path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_PEM_BYTES).read_to_end(&mut text));
    read.map_err(|cause| TlsError::Read { path: path.to_owned(), cause })?;
    Ok(text)
}

fn stamps(files: &TlsFiles) -> [Option<FileStamp>; 2] {
    [&files.certificate, &files.key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some(FileStamp { inode: found.ino(), size: found.size(), changed: (found.ctime(), found.ctime_nsec()) })
    })
}

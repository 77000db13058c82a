use kumade_sketch::DecodeError;
use std::path::PathBuf;
use thiserror::Error;

/// Why the archive could not do what was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// There is no room for what is to be written. Nothing of it was; what was acknowledged is there.
    #[error("cannot {operation} in {archive}: the disk is full; make room, or shorten the retention")]
    DiskFull {
        /// What was tried.
        operation: &'static str,
        /// Where.
        archive: String,
    },
    /// A later version of the program has written it.
    #[error(
        "{archive} has the schema {found}, and this version knows {known} at most: install the later version again, or \
         restore a backup that this version has written"
    )]
    Newer {
        /// Which archive.
        archive: String,
        /// Its schema.
        found: u32,
        /// The latest that is known here.
        known: u32,
    },
    /// It is no archive of this program.
    #[error("{archive} holds something else than an archive of kumade: choose another path")]
    Foreign {
        /// Which file.
        archive: String,
    },
    /// What is stored can't be read.
    #[error("{what} in {archive} is damaged: {cause}")]
    Damaged {
        /// Which part of it.
        what: String,
        /// Which archive.
        archive: String,
        /// How.
        cause: DecodeError,
    },
    /// A document that is no JSON object with a `schema`.
    #[error("the document of a run can't be stored: {0}")]
    Document(String),
    /// Something that does not exist is referred to.
    #[error("there is no {what} {id} in the archive")]
    Unknown {
        /// `host` or `pair`.
        what: &'static str,
        /// Its number.
        id: u32,
    },
    /// The database failed.
    #[error("cannot {operation} in {archive}: {cause}")]
    Engine {
        /// What was tried.
        operation: &'static str,
        /// Where.
        archive: String,
        /// What the database says.
        cause: String,
    },
    /// Another writer leads: this one writes nothing more.
    #[error("{archive} is written by another coordinator, which has taken over")]
    Deposed {
        /// Which archive.
        archive: String,
    },
    /// A file beside the database failed.
    #[error("cannot {operation} {}: {cause}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
}

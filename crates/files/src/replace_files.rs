#[cfg_attr(not(target_os = "linux"), path = "replace_files/directory_by_path.rs")]
mod directory;

use directory::Directory;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Files that could not be replaced.
#[derive(Debug, Error)]
#[error("cannot write {}: {cause}{}", path.display(), if *replaced == 0 { "; what was there is unchanged" } else { "" })]
pub struct ReplaceError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the system answered; it stands in the text, and is therefore not the source.
    pub cause: io::Error,
    /// How many files had been replaced already.
    pub replaced: usize,
}

/// Writes files with these names into `directory`, which is created where it is missing, and returns their paths. Files that
/// have the names are replaced, each in one step, and only once all of the new ones are on the disk: whoever reads, or a system
/// that fails meanwhile, finds whole files. A symbolic link with such a name is replaced and not followed.
///
/// # Errors
/// Names what could not be written; unless it is the very last step that fails, nothing has been replaced then, nor is
/// anything left behind.
pub fn replace_files(directory: &Path, files: &[(&str, &[u8])]) -> Result<Vec<PathBuf>, ReplaceError> {
    let at = |path: PathBuf, replaced| move |cause: io::Error| ReplaceError { path, cause, replaced };
    let opened = Directory::open(directory).map_err(at(directory.to_owned(), 0))?;
    let mut written = Vec::new();
    for (name, contents) in files {
        opened.check_replaceable(name).map_err(at(directory.join(name), 0))?;
        written.push((name, opened.write_temporary_file(contents).map_err(at(directory.join(name), 0))?));
    }
    let mut paths = Vec::new();
    for (name, file) in written {
        let path = directory.join(name);
        file.rename(name).map_err(at(path.clone(), paths.len()))?;
        paths.push(path);
    }
    opened.sync().map_err(at(directory.to_owned(), paths.len()))?;
    Ok(paths)
}

/// Creates `directory` where it is missing, and makes sure that files can be written into it.
///
/// # Errors
/// They can't be.
pub fn check_writable(directory: &Path) -> Result<(), ReplaceError> {
    let checked = Directory::open(directory).and_then(|opened| opened.write_temporary_file(b"kumade").map(drop));
    checked.map_err(|cause| ReplaceError { path: directory.to_owned(), cause, replaced: 0 })
}

use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
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
    opened.0.sync_all().map_err(at(directory.to_owned(), paths.len()))?;
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

/// An open directory: what is done in it is done there, whatever becomes of its path meanwhile.
struct Directory(File);

/// A new file under a name that nobody knows in advance; removed when dropped.
struct TemporaryFile<'d> {
    directory: &'d Directory,
    name: String,
    is_renamed: bool,
}

impl Directory {
    fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECTORY).open(path).map(Directory)
    }

    /// Better known before the first file is replaced than after it.
    fn check_replaceable(&self, name: &str) -> io::Result<()> {
        match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR => {
                Err(io::ErrorKind::IsADirectory.into())
            }
            _ => Ok(()),
        }
    }

    fn write_temporary_file(&self, contents: &[u8]) -> io::Result<TemporaryFile<'_>> {
        let name = format!(".kumade-{:016x}", getrandom::u64().map_err(io::Error::other)?);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mut file = File::from(openat(self.0.as_fd(), name.as_str(), flags, Mode::from_bits_truncate(0o666))?);
        let new = TemporaryFile { directory: self, name, is_renamed: false };
        file.write_all(contents)?;
        // Some file systems find out only now that the disk is full.
        file.sync_all()?;
        Ok(new)
    }
}

impl TemporaryFile<'_> {
    fn rename(mut self, name: &str) -> io::Result<()> {
        renameat(&self.directory.0, self.name.as_str(), &self.directory.0, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed
            && let Err(error) = unlinkat(&self.directory.0, self.name.as_str(), UnlinkatFlags::NoRemoveDir)
        {
            tracing::warn!("cannot remove the temporary file {}: {error}", self.name);
        }
    }
}

use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// An open directory: what is done in it is done there, whatever becomes of its path meanwhile.
pub(super) struct Directory(File);

/// A new file under a name that nobody knows in advance; removed when dropped.
pub(super) struct TemporaryFile<'d> {
    directory: &'d Directory,
    name: String,
    is_renamed: bool,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        OpenOptions::new().read(true).custom_flags(nix::libc::O_DIRECTORY).open(path).map(Directory)
    }

    /// Has what was done reach the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    /// Better known before the first file is replaced than after it.
    pub(super) fn check_replaceable(&self, name: &str) -> io::Result<()> {
        match fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR => {
                Err(io::ErrorKind::IsADirectory.into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn write_temporary_file(&self, contents: &[u8]) -> io::Result<TemporaryFile<'_>> {
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
    pub(super) fn rename(mut self, name: &str) -> io::Result<()> {
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

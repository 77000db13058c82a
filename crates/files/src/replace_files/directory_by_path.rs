use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A directory by its path, where the system opens none.
pub(super) struct Directory(PathBuf);

/// A new file under a name that nobody knows in advance; removed when dropped.
pub(super) struct TemporaryFile<'d> {
    directory: &'d Directory,
    path: PathBuf,
    is_renamed: bool,
}

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Ok(Directory(path.to_owned()))
    }

    /// File systems that are no Unix's keep their directories by themselves.
    pub(super) fn sync(&self) -> io::Result<()> {
        if cfg!(unix) { File::open(&self.0)?.sync_all() } else { Ok(()) }
    }

    /// Better known before the first file is replaced than after it.
    pub(super) fn check_replaceable(&self, name: &str) -> io::Result<()> {
        if self.0.join(name).is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
    }

    pub(super) fn write_temporary_file(&self, contents: &[u8]) -> io::Result<TemporaryFile<'_>> {
        let path = self.0.join(format!(".kumade-{:016x}", getrandom::u64().map_err(io::Error::other)?));
        let mut file = File::create_new(&path)?;
        let new = TemporaryFile { directory: self, path, is_renamed: false };
        file.write_all(contents)?;
        // Some file systems find out only now that the disk is full.
        file.sync_all()?;
        Ok(new)
    }
}

impl TemporaryFile<'_> {
    pub(super) fn rename(mut self, name: &str) -> io::Result<()> {
        fs::rename(&self.path, self.directory.0.join(name))?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("cannot remove the temporary file {}: {error}", self.path.display());
        }
    }
}

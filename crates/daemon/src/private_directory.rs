use nix::fcntl::OFlag;
use nix::unistd::{geteuid, mkdtemp};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Those of this process.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory for temporary files that was not there before and that only its user may enter: in a place where everybody may
/// make files, nobody else can have put anything into it. Removed with all that is in it when this is dropped; where the process was
/// killed, by the next one that makes one of this name.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    /// Held for as long as the process lives, whatever ends it.
    _lock: File,
}

/// What `mkdtemp` puts in their place.
const TEMPLATE: &str = "XXXXXX";
/// Another process may not have locked a new one yet.
const MIN_LEFTOVER_AGE: Duration = Duration::from_secs(60);

impl PrivateDirectory {
    /// Makes one, whose name begins with `name`, among the temporary files.
    ///
    /// # Errors
    /// None can be made there.
    pub fn new(name: &str) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        remove_leftovers(&parent, name, MIN_LEFTOVER_AGE);
        let template = parent.join(format!("{name}-{TEMPLATE}"));
        let made = mkdtemp(&template).map_err(io::Error::from).and_then(|path| {
            OWN.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
            let lock = open(&path)?;
            lock.try_lock()?;
            Ok(PrivateDirectory { path, _lock: lock })
        });
        made.map_err(|error| {
            io::Error::other(format!("cannot make a directory like {}: {error}; set TMPDIR", template.display()))
        })
    }

    /// Removes all that this process has made, before it ends without dropping them.
    pub fn remove_all() {
        for path in OWN.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = fs::remove_dir_all(path);
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        OWN.lock().unwrap_or_else(PoisonError::into_inner).retain(|own| *own != self.path);
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn open(directory: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits()).open(directory)
}

/// Removes those that this user's processes of this name have left when they were killed.
fn remove_leftovers(parent: &Path, name: &str, min_age: Duration) {
    let is_one = |entry: &fs::DirEntry| {
        let suffix =
            entry.file_name().to_str().and_then(|file| Some(file.strip_prefix(name)?.strip_prefix('-')?.len()));
        suffix == Some(TEMPLATE.len())
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten().filter(is_one) {
        // Others' cannot be opened, or are theirs.
        let Ok(directory) = open(&entry.path()) else { continue };
        let Ok(metadata) = directory.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        if metadata.uid() == geteuid().as_raw() && age >= min_age && directory.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_is_a_new_one_of_its_user_alone_and_gone_in_the_end() {
        let directories = [(); 2].map(|()| PrivateDirectory::new("kumade-private").unwrap());
        let paths = [0, 1].map(|index| directories[index].path().to_owned());
        assert_ne!(paths[0], paths[1]);
        for path in &paths {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
            fs::write(path.join("file"), "").unwrap();
        }
        drop(directories);
        assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
    }

    #[test]
    fn what_a_killed_process_has_left_is_removed_and_nothing_else() {
        let parent = PrivateDirectory::new("kumade-leftovers").unwrap();
        let path = |name: &str| parent.path().join(name);
        let names = ["kumade-lab-abcdef", "kumade-lab-locked", "kumade-lab-longer-abcdef", "kumade-mesh-abcdef"];
        for name in names {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("key"), "").unwrap();
        }
        std::os::unix::fs::symlink(path(names[3]), path("kumade-lab-linked")).unwrap();
        let lock = open(&path(names[1])).unwrap();
        lock.try_lock().unwrap();
        remove_leftovers(parent.path(), "kumade-lab", Duration::from_secs(3600));
        assert!(names.iter().all(|name| path(name).exists()), "a new one may be locked in a moment");
        remove_leftovers(parent.path(), "kumade-lab", Duration::ZERO);
        assert_eq!(names.map(|name| path(name).join("key").exists()), [false, true, true, true]);
        drop(lock);
        remove_leftovers(parent.path(), "kumade-lab", Duration::ZERO);
        assert!(!path(names[1]).exists());
    }
}

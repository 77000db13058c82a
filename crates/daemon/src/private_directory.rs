use nix::unistd::mkdtemp;
use std::io;
use std::path::{Path, PathBuf};

/// A directory for temporary files that was not there before and that only its user may enter: in a place where everybody may
/// make files, nobody else can have put anything into it. Removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Makes one, whose name begins with `name`, among the temporary files.
    ///
    /// # Errors
    /// None can be made there.
    pub fn new(name: &str) -> io::Result<Self> {
        let template = std::env::temp_dir().join(format!("{name}-XXXXXX"));
        mkdtemp(&template).map(PrivateDirectory).map_err(|error| {
            io::Error::other(format!("cannot make a directory like {}: {error}; set TMPDIR", template.display()))
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
}

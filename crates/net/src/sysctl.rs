//! Settings of the kernel: sysctl(8). Those of `net` are of the calling thread's network namespace.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// A setting, open to be read and written also once this process may open nothing more.
#[derive(Debug)]
pub struct Sysctl(File);

/// No setting that is handled here is longer, in bytes.
const MAX_VALUE_BYTES: usize = 256;

impl Sysctl {
    /// By its name, such as `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// This kernel has no such setting, or it takes CAP_NET_ADMIN.
    pub fn open(name: &str) -> io::Result<Self> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        Ok(Sysctl(OpenOptions::new().read(true).write(true).open(path)?))
    }

    /// Its value.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn read(&self) -> io::Result<String> {
        let mut value = [0; MAX_VALUE_BYTES];
        let length = self.0.read_at(&mut value, 0)?;
        Ok(String::from_utf8_lossy(&value[..length]).trim().to_owned())
    }

    /// Gives it a value.
    ///
    /// # Errors
    /// The kernel refuses the value, or the process.
    pub fn write(&self, value: &str) -> io::Result<()> {
        self.0.write_at(value.as_bytes(), 0).map(drop)
    }
}

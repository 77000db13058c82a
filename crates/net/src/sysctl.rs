//! Settings of the kernel: sysctl(8). Those of `net` are of the calling thread's network namespace.

use std::fs;
use std::io;

/// The value of a setting, such as `net.ipv4.ip_forward`; or with slashes, where a part may have a dot, as an interface's name.
///
/// # Errors
/// This kernel has no such setting.
pub fn read(name: &str) -> io::Result<String> {
    Ok(fs::read_to_string(path(name))?.trim().to_owned())
}

/// The same of a setting that is a number; none where there is no such setting.
pub fn read_number(name: &str) -> Option<u32> {
    read(name).ok()?.parse().ok()
}

/// Whether a setting can have no other value, since it is of a part of the file system that can only be read, as in many containers.
pub fn is_read_only(name: &str) -> bool {
    let opened = fs::OpenOptions::new().write(true).open(path(name));
    opened.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
}

/// Gives a setting a value.
///
/// # Errors
/// This kernel has no such setting, it takes CAP_NET_ADMIN, or it cannot have the value.
pub fn write(name: &str, value: &str) -> io::Result<()> {
    fs::write(path(name), value)
}

/// As sysctl(8): whichever of both stands first separates.
fn path(name: &str) -> String {
    let first = name.find(['.', '/']).map(|place| name.as_bytes()[place]);
    format!("/proc/sys/{}", if first == Some(b'.') { name.replace('.', "/") } else { name.to_owned() })
}

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

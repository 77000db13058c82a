//! Settings of the kernel: sysctl(8). Those of `net` are of the calling thread's network namespace.

use std::fs;
use std::io;

/// The value of a setting, such as `net.ipv4.ip_forward`.
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

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

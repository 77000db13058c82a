//! Commands of iproute2 and nftables, run in network namespaces.

use crate::namespaces::eventually;
use kumade_net::SetupError;
use kumade_net::namespace::Namespace;
use std::io;
use std::path::Path;

/// Runs a command, such as `ip`, `tc` or `nft`, with its arguments in a namespace. Returns what it prints.
///
/// # Errors
/// The command is missing, or it fails: with its message.
pub(crate) fn run_in_namespace(inside: &Namespace, words: &[&str]) -> Result<String, SetupError> {
    // The administrator's directories are often missing from an ordinary user's PATH.
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(|place| format!("{place}/{}", words[0]));
    let program = places.iter().find(|path| Path::new(path).exists()).map_or(words[0], String::as_str);
    let failed = |cause| SetupError::new(format!("run `{}`", words.join(" ")), cause);
    let output = inside.command(program).args(&words[1..]).output();
    let package = if words[0] == "nft" { "install nftables" } else { "install iproute2" };
    let output = output.map_err(|cause| failed(cause).with_hint(package))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())))
}

/// Runs `ip` with these arguments in a namespace. Returns what it prints.
///
/// # Errors
/// It is missing, or it fails: with its message.
pub fn run_ip(inside: &Namespace, arguments: &[&str]) -> Result<String, SetupError> {
    run_in_namespace(inside, &[&["ip"], arguments].concat())
}

/// Waits until the kernel has noticed that the cables of all devices are up that are switched on. It drops what is sent before, and
/// adds addresses and routes of its own with it.
///
/// # Errors
/// A device of these namespaces stays without its cable, or iproute2 is missing.
pub fn wait_for_cables<'n>(namespaces: impl IntoIterator<Item = &'n Namespace>) -> Result<(), SetupError> {
    let is_up = |inside| -> Result<bool, SetupError> {
        let links = run_ip(inside, &["-o", "link", "show", "up"])?;
        Ok(!links.lines().any(|link| link.contains("state DOWN") || link.contains("state LOWERLAYERDOWN")))
    };
    for inside in namespaces {
        let mut outcome = Ok(false);
        let has_ended = eventually(|| {
            outcome = is_up(inside);
            !matches!(outcome, Ok(false))
        });
        outcome?;
        if !has_ended {
            return Err(SetupError::new("switch the hosts' interfaces on", io::Error::from(io::ErrorKind::TimedOut)));
        }
    }
    Ok(())
}

/// Joins two namespaces by a pair of veth interfaces with these names.
///
/// # Errors
/// `ip` is missing, or it fails: with its message.
pub fn add_veth(one: (&Namespace, &str), other: (&Namespace, &str)) -> Result<(), SetupError> {
    let path = other.0.path();
    run_ip(one.0, &["link", "add", one.1, "type", "veth", "peer", "name", other.1, "netns", &path]).map(drop)
}

//! What this host must be like, whatever the configuration says: settings that the gateway leaves to the administrator.

use super::plan::DirectPlan;
use crate::host::read_sysctl;
use kumade_net::interface::Family;
use thiserror::Error;

/// This host does not forward packets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("this host does not forward {version} packets: set `sysctl -w {key}=1`")]
pub struct ForwardingError {
    version: &'static str,
    key: &'static str,
}

/// Checks that the host forwards what the plan needs. Returns warnings, with what to try.
///
/// # Errors
/// It does not forward.
pub fn check_forwarding(plan: &DirectPlan) -> Result<Vec<String>, ForwardingError> {
    for (family, version, key) in
        [(Family::V4, "IPv4", "net.ipv4.ip_forward"), (Family::V6, "IPv6", "net.ipv6.conf.all.forwarding")]
    {
        let is_needed = plan.routes.iter().any(|route| route.family == family);
        if is_needed && read_sysctl(key) == Some(0) {
            return Err(ForwardingError { version, key });
        }
    }
    let all = read_sysctl("net.ipv4.conf.all.rp_filter");
    let mut warnings = Vec::new();
    for route in plan.routes.iter().filter(|route| route.family == Family::V4) {
        let key = format!("net/ipv4/conf/{}/rp_filter", route.interface);
        // The greater of the two counts; 1 is strict (ip-sysctl).
        if read_sysctl(&key).max(all) == Some(1) {
            let warning = format!(
                "{0} drops packets whose return path is another interface; `sysctl -w net/ipv4/conf/{0}/rp_filter=2` lets them in",
                route.interface
            );
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    Ok(warnings)
}

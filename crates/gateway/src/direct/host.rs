//! What this host must be like, whatever the configuration says: settings that the gateway leaves to the administrator.

use super::plan::DirectPlan;
use kumade_net::forwarding::{MissingForwarding, has_strict_reverse_path_filter, missing_forwarding};
use kumade_net::interface::Family;

/// Checks that the host forwards what the plan needs. Returns warnings, with what to try.
///
/// # Errors
/// It does not forward.
pub fn check_forwarding(plan: &DirectPlan) -> Result<Vec<String>, MissingForwarding> {
    let families: Vec<_> = plan.routes.iter().map(|route| route.family).collect();
    missing_forwarding(&families).first().map_or(Ok(()), |missing| Err(*missing))?;
    let mut warnings = Vec::new();
    for route in plan.routes.iter().filter(|route| route.family == Family::V4) {
        if has_strict_reverse_path_filter(&route.interface) {
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

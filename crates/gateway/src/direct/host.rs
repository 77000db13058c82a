//! What this host must be like, whatever the configuration says: settings that the gateway leaves to the administrator.

use super::plan::DirectPlan;
use super::reverse_path::FilterSettings;
use kumade_net::forwarding::{MissingForwarding, missing_forwarding};

/// Checks that the host forwards what the plan needs. Returns warnings, with what to try.
///
/// # Errors
/// It does not forward.
pub fn check_forwarding(plan: &DirectPlan) -> Result<Vec<String>, MissingForwarding> {
    let families: Vec<_> = plan.routes.iter().map(|route| route.family).collect();
    missing_forwarding(&families).first().map_or(Ok(()), |missing| Err(*missing))?;
    let mut warnings = Vec::new();
    for interface in plan.filtered_interfaces() {
        warnings.extend(FilterSettings::read(interface).and_then(|settings| settings.warning(interface)));
    }
    Ok(warnings)
}

//! The running monitors, by their names.

use kumade_daemon::{Registry, RuntimeDir};
use kumade_monitor::MonitorProtocol;

/// What a monitor is called where nothing else is said.
pub(super) const DEFAULT_NAME: &str = "monitor";

/// Those of this user.
pub(super) fn monitor_registry() -> Registry<MonitorProtocol> {
    Registry::new(RuntimeDir::standard("kumade"))
}

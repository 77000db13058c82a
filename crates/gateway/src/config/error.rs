pub use kumade_daemon::ConfigError;
pub(super) use kumade_daemon::ConfigFault;

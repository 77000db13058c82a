//! What a gateway's configuration file may say, and what it means once it is valid.

mod bonded;
mod changes;
mod checks;
mod file;
mod measurement;
mod options;
mod peer;
mod sessions;
mod translations;
mod types;
mod validate;

pub use changes::FixedSetting;
pub use kumade_daemon::ConfigError;
pub use options::{PathOption, PathOptionError};
pub use types::{
    AddressTranslation, BondedSettings, GatewayConfig, GatewayPath, GatewaySide, LocalSite, MeasurementConfig, Plane,
    RemotePeer, RemoteSite, SessionsConfig,
};

use std::io;
use thiserror::Error;

/// Why an emulated link cannot start, or has ended.
#[derive(Debug, Error)]
pub enum EmulatorError {
    /// An impossible setting.
    #[error(transparent)]
    Config(#[from] kumade_units::ConfigError),
    /// The system refuses what the link is built of.
    #[error(transparent)]
    Setup(#[from] kumade_net::SetupError),
    /// The same interface twice.
    #[error("cannot link {0} to itself; name two interfaces")]
    SameInterface(String),
    /// Frames on one side, packets without frames on the other.
    #[error(
        "cannot link an interface to a TUN device: one carries Ethernet frames, the other IP packets; give two of a kind"
    )]
    MixedPortKinds,
    /// The kernel already forwards packets that arrive there.
    #[error(
        "cannot use {0}: it is a port of a bridge or bond, and each packet would be forwarded twice; release it with `ip link set {0} nomaster`"
    )]
    HasMaster(String),
    /// Another emulated link has it.
    #[error("cannot use {interface}: the link of process {process} has it; end that one first")]
    InterfaceInUse {
        /// Which interface.
        interface: String,
        /// The process that has it, or `unknown`.
        process: String,
    },
    /// Whether another emulated link has it can't be found out.
    #[error("cannot claim {interface}: {cause}")]
    InterfaceLock {
        /// Which interface.
        interface: String,
        /// What the system answered.
        cause: String,
    },
    /// An interface went away while the link was running.
    #[error("the link has ended: its interface {0} has vanished; start it again when the interface is back")]
    InterfaceVanished(String),
    /// A device fails for good.
    #[error("the link has ended: cannot read {name}: {cause}")]
    ReadFailed {
        /// Which device.
        name: String,
        /// What the system answered.
        cause: io::Error,
    },
    /// It has ended before.
    #[error("the link has ended and cannot be changed any more; start it again")]
    LinkEnded,
}

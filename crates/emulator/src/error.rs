use std::io;
use thiserror::Error;

/// Why a bridge cannot start, or has ended.
#[derive(Debug, Error)]
pub enum EmulatorError {
    /// A setting that no link can have.
    #[error(transparent)]
    Config(#[from] units::ConfigError),
    /// Addresses would have to be translated both ways, but each direction has rules of its own.
    #[error(
        "cannot translate addresses on a bridge: its directions have rules of their own; leave the translation out"
    )]
    Translation,
    /// The system refused what the bridge is built of.
    #[error(transparent)]
    Setup(#[from] net::SetupError),
    /// The same interface twice.
    #[error("cannot bridge {0} with itself; name two interfaces")]
    Same(String),
    /// Frames on one side, packets without frames on the other.
    #[error(
        "cannot join an interface to a TUN device: one carries Ethernet frames, the other IP packets; give two of a kind"
    )]
    Mixed,
    /// The kernel already forwards what arrives there.
    #[error(
        "cannot bridge {0}: it is a port of another bridge or bond, and each packet would go both ways; take it out with `ip link set {0} nomaster`"
    )]
    Enslaved(String),
    /// Another bridge of this program has it.
    #[error("cannot bridge {interface}: process {process} does already; end that one first")]
    Taken {
        /// Which interface.
        interface: String,
        /// Whose it is.
        process: String,
    },
    /// An interface went away while the bridge was running.
    #[error("the bridge has ended: its interface {0} has vanished; start it again when the interface is back")]
    Vanished(String),
    /// A device gave an error that does not pass.
    #[error("the bridge has ended: cannot read {name}: {cause}")]
    Read {
        /// Which device.
        name: String,
        /// What the system said.
        cause: io::Error,
    },
    /// It has ended before.
    #[error("the bridge has ended, and can't be changed any more; start it again")]
    Ended,
}

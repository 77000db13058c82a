/// What stands at one end of the bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSpec {
    /// An Ethernet interface that exists, by name.
    Interface(String),
    /// A TUN device that is made for this.
    Tun {
        /// What it is to be called.
        name: String,
    },
}

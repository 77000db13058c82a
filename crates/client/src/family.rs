/// Which addresses of a host to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Both, in the system's order of preference; only the source address's version if one is given.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

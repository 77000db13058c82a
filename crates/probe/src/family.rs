/// Which addresses of a host to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// As the system prefers; those of the source address's version where one is given.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

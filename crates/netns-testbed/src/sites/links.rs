use kumade_link::LinkConfig;

/// The links of one path.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLinks {
    /// From left to right.
    pub up: LinkConfig,
    /// From right to left.
    pub down: LinkConfig,
}

//! How many bytes of arriving packets of one flow the kernel merges (GRO) and then handles like one packet, so that all of
//! them take the same way.
//!
//! This bounds what an interface merges itself. Another namespace or virtual machine on this host may hand over batches that
//! its own stack has never split (TSO): those arrive as they are, unless it is switched off there (`ethtool -K eth0 tso off`).

use crate::interface::{set_u32_attribute, u32_attribute};
use crate::setup::SetupError;

/// The greatest batches that an interface makes of arriving packets, in bytes from the IP header on. None is for kernels
/// that have no such setting (before Linux 5.19, and 6.3 for IPv4 alone).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroLimits {
    /// Of IPv6 packets; on kernels before Linux 6.3, of all.
    pub v6: Option<u32>,
    /// Of IPv4 packets.
    pub v4: Option<u32>,
}

/// IFLA_GRO_MAX_SIZE and IFLA_GRO_IPV4_MAX_SIZE of linux/if_link.h.
const GRO_MAX_SIZE: u16 = 58;
const GRO_IPV4_MAX_SIZE: u16 = 64;

impl GroLimits {
    /// As they are set.
    ///
    /// # Errors
    /// No such interface.
    pub fn read(interface: &str) -> Result<Self, SetupError> {
        Ok(GroLimits { v6: u32_attribute(interface, GRO_MAX_SIZE)?, v4: u32_attribute(interface, GRO_IPV4_MAX_SIZE)? })
    }

    /// These, and none above a number of bytes. One below the size of two packets merges nothing.
    #[must_use]
    pub fn capped_at(self, bytes: u32) -> Self {
        GroLimits { v6: self.v6.map(|limit| limit.min(bytes)), v4: self.v4.map(|limit| limit.min(bytes)) }
    }

    /// Sets them.
    ///
    /// # Errors
    /// No such interface, or not allowed.
    pub fn set(self, interface: &str) -> Result<(), SetupError> {
        // In this order: the kernel lets the first bound IPv4, too.
        for (attribute, limit) in [(GRO_MAX_SIZE, self.v6), (GRO_IPV4_MAX_SIZE, self.v4)] {
            if let Some(limit) = limit {
                set_u32_attribute(interface, attribute, limit)?;
            }
        }
        Ok(())
    }
}

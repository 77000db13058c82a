use std::convert::Infallible;
use std::io;
use std::net::IpAddr;

/// Hears ICMP messages, which takes privileges and more.
#[derive(Debug)]
pub struct IcmpListener(Infallible);

impl IcmpListener {
    /// What is longer is cut off.
    pub const MAX_MESSAGE_BYTES: usize = 256;

    /// Does not.
    ///
    /// # Errors
    /// Always.
    pub fn open(_towards: IpAddr) -> io::Result<Self> {
        crate::portable::unsupported("ICMP messages")
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn receive<'m>(
        &self,
        _memory: &'m mut [u8; Self::MAX_MESSAGE_BYTES],
    ) -> io::Result<Option<(&'m [u8], Option<IpAddr>)>> {
        match self.0 {}
    }
}

//! What systems other than Linux do not say, or to no program without privileges: in place of the modules that ask Linux.

use std::io;

fn unsupported<T>(what: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, format!("this system tells a program nothing of {what}")))
}

/// Interfaces by their names.
pub(crate) mod index {
    use std::io;

    pub(crate) fn index_of(_name: &str) -> io::Result<u32> {
        super::unsupported("interfaces by name")
    }

    /// By their number, interfaces may be named in addresses; whether there is one, sockets say.
    pub(crate) fn name_of(index: u32) -> Option<String> {
        (index != 0).then(|| index.to_string())
    }
}

/// Settings of the kernel.
pub mod sysctl {
    /// None.
    pub fn read_number(_name: &str) -> Option<u32> {
        None
    }
}

/// How long interfaces hold received packets back.
pub mod coalescing {
    pub use crate::system_facts::InterruptCoalescing;
    use std::io;
    use std::net::IpAddr;

    impl InterruptCoalescing {
        /// Not known.
        ///
        /// # Errors
        /// None.
        pub fn of_interface(_interface: &str) -> io::Result<Option<Self>> {
            Ok(None)
        }
    }

    /// None.
    pub fn interface_with_address(_address: IpAddr) -> Option<String> {
        None
    }
}

/// What routers answer to packets that they could not pass on.
pub(crate) mod icmp {
    use super::unsupported;
    pub use crate::system_facts::IcmpError;
    use rustix::fd::AsFd;
    use std::convert::Infallible;
    use std::io;
    use std::net::IpAddr;

    /// Lets the system keep ICMP errors, which it does not.
    ///
    /// # Errors
    /// Where they are to be kept.
    pub fn report_icmp_errors(_socket: &impl AsFd, are_reported: bool) -> io::Result<()> {
        if are_reported { unsupported("what routers answer (ICMP errors)") } else { Ok(()) }
    }

    /// None.
    ///
    /// # Errors
    /// None.
    pub fn next_icmp_error(_socket: &impl AsFd, _payload: &mut [u8]) -> io::Result<Option<IcmpError>> {
        Ok(None)
    }

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
            unsupported("ICMP messages")
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
}

use crate::HtbNetwork;
use crate::{Host, Lateness, Network, NetworkError};
use kumade_link::CrossConfig;
use kumade_middlebox::MiddleboxConfig;
use kumade_units::Direction;
use kumade_units::{Rate, Time};

/// A network with one bottleneck on which experiments are made: the lab's own, or the kernel's HTB as a reference.
pub trait ExperimentNetwork {
    /// The host of that name: `a` measures against `b`.
    ///
    /// # Errors
    /// There is none.
    fn host(&self, name: &str) -> Result<&Host, NetworkError>;

    /// Replaces the cross traffic that this network computes for one direction; it starts now. What other hosts than
    /// `a` and `b` send is cross traffic too.
    ///
    /// # Errors
    /// Where a source makes no sense, or this network has none but real packets.
    fn set_cross_traffic(&mut self, direction: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError>;

    /// As [`ExperimentNetwork::set_cross_traffic`], on the hop behind the bottleneck.
    ///
    /// # Errors
    /// Where a source makes no sense, or there is no such hop.
    fn set_downstream_cross_traffic(
        &mut self,
        direction: Direction,
        sources: &[CrossConfig],
    ) -> Result<(), NetworkError>;

    /// Replaces the middlebox in front of host `a`.
    ///
    /// # Errors
    /// Where this network has no such middlebox.
    fn set_middlebox(&mut self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError>;

    /// Checks that the bottleneck is as set. Do it before setting cross traffic, which it ends.
    ///
    /// # Errors
    /// With what was found in place of what was set.
    fn verify_bottleneck(&mut self, direction: Direction) -> Result<(), NetworkError>;

    /// The bandwidth that was available from `from` to `to` ([`kumade_net::clock::realtime`]).
    ///
    /// # Errors
    /// Where that is not on record.
    fn true_available_bandwidth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError>;

    /// How late the emulation was meanwhile; all zero where the kernel does it.
    ///
    /// # Errors
    /// Where the emulation has ended.
    fn lateness(&self, direction: Direction, from: Time, to: Time) -> Result<Lateness, NetworkError>;
}

impl ExperimentNetwork for Network {
    fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.host(name)
    }

    fn set_cross_traffic(&mut self, direction: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        Network::set_cross_traffic(self, direction, sources)
    }

    fn set_downstream_cross_traffic(
        &mut self,
        direction: Direction,
        sources: &[CrossConfig],
    ) -> Result<(), NetworkError> {
        Network::set_downstream_cross_traffic(self, direction, sources)
    }

    fn set_middlebox(&mut self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError> {
        Network::set_middlebox(self, config)
    }

    fn verify_bottleneck(&mut self, direction: Direction) -> Result<(), NetworkError> {
        Network::verify(self, direction).map(drop)
    }

    fn true_available_bandwidth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        self.available_bandwidth(direction, from, to)
    }

    fn lateness(&self, direction: Direction, from: Time, to: Time) -> Result<Lateness, NetworkError> {
        self.lateness(direction, from, to)
    }
}

impl ExperimentNetwork for HtbNetwork {
    fn host(&self, name: &str) -> Result<&Host, NetworkError> {
        self.host(name)
    }

    fn set_cross_traffic(&mut self, _: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        match sources {
            [] => Ok(()),
            _ => Err(NetworkError::Spec("before HTB, cross traffic can only be sent, not computed".into())),
        }
    }

    fn set_downstream_cross_traffic(&mut self, _: Direction, sources: &[CrossConfig]) -> Result<(), NetworkError> {
        match sources {
            [] => Ok(()),
            _ => Err(NetworkError::Spec("there is no downstream hop behind HTB".into())),
        }
    }

    fn set_middlebox(&mut self, config: Option<MiddleboxConfig>) -> Result<(), NetworkError> {
        self.set_middlebox(config)
    }

    fn verify_bottleneck(&mut self, direction: Direction) -> Result<(), NetworkError> {
        self.verify(direction).map(drop)
    }

    fn true_available_bandwidth(&self, direction: Direction, from: Time, to: Time) -> Result<Rate, NetworkError> {
        self.available_bandwidth(direction, from, to)
    }

    fn lateness(&self, _: Direction, _: Time, _: Time) -> Result<Lateness, NetworkError> {
        Ok(Lateness::default())
    }
}

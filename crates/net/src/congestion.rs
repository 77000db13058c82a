//! The kernel's TCP congestion controllers: which there are, which one a socket uses, and ones that the kernel lacks.
//!
//! A controller is always chosen per socket, and before it connects: a connection that was once BBR's keeps pacing.

#[cfg(not(feature = "bpf"))]
mod absent;
mod controller;
#[cfg(feature = "bpf")]
mod loader;

#[cfg(not(feature = "bpf"))]
use absent as loader;

use crate::setup::SetupError;
use controller::Controller;
use socket2::SockRef;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

const AVAILABLE_PATH: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// The names that [`set`] knows now. Others may be modules of the kernel that are yet to be loaded.
///
/// # Errors
/// Without `/proc`, or without IPv4.
pub fn available() -> Result<Vec<String>, SetupError> {
    let names =
        fs::read_to_string(AVAILABLE_PATH).map_err(|error| SetupError::new(format!("read {AVAILABLE_PATH}"), error))?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// Lets the controller called `name` decide how fast the socket sends. Sockets that a listening one accepts inherit it.
///
/// # Errors
/// Where the kernel has no such controller, or keeps it for the privileged.
pub fn set(socket: &impl AsFd, name: &str) -> Result<(), SetupError> {
    SockRef::from(socket).set_tcp_congestion(name.as_bytes()).map_err(|error| {
        SetupError::new(format!("use the TCP congestion control {name}"), error)
            .with_hint("`sysctl net.ipv4.tcp_available_congestion_control` lists what this kernel has")
    })
}

/// The name of the controller that the socket uses.
///
/// # Errors
/// Where the socket is not one of TCP.
pub fn get(socket: &impl AsFd) -> Result<String, SetupError> {
    let name = SockRef::from(socket).tcp_congestion();
    let name = name.map_err(|error| SetupError::new("ask a socket for its TCP congestion control", error))?;
    Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// A congestion controller that the kernel lacks, registered in it as long as this lives in any process: for all
/// network namespaces, and for sockets without privilege too. Nothing but a file descriptor holds it: however the
/// process ends, the name goes with it. Connections that use the controller then keep it until they are closed.
///
/// It takes the feature `bpf`; without it, every attempt to load is an error.
#[derive(Debug)]
pub struct LoadedController {
    controller: Controller,
    _registration: OwnedFd,
}

impl LoadedController {
    /// Compound TCP (Tan et al. 2006, draft-sridharan-tcpm-ctcp), called `kumade_compound`. Where another process has
    /// it registered, that one is shared.
    ///
    /// # Errors
    /// Without root's privileges (inside of a user namespace, too), with a kernel that is older than 6.4 or lacks BPF or
    /// its type information, and in a build without the feature.
    pub fn compound() -> Result<Self, SetupError> {
        Self::load(Controller::Compound)
    }

    /// BIC (Xu et al. 2004) with Linux's parameters, called `kumade_bic`, for kernels built without.
    ///
    /// # Errors
    /// As [`LoadedController::compound`].
    pub fn bic() -> Result<Self, SetupError> {
        Self::load(Controller::Bic)
    }

    /// TCP Vegas (Brakmo and Peterson 1995) as Linux has it, called `kumade_vegas`, for kernels built without.
    ///
    /// # Errors
    /// As [`LoadedController::compound`].
    pub fn vegas() -> Result<Self, SetupError> {
        Self::load(Controller::Vegas)
    }

    /// DCTCP (RFC 8257), called `kumade_dctcp`. Both ends use it: its receiver echoes marks exactly.
    ///
    /// # Errors
    /// As [`LoadedController::compound`].
    pub fn dctcp() -> Result<Self, SetupError> {
        Self::load(Controller::Dctcp)
    }

    /// A congestion control for L4S (RFC 9331; draft-briscoe-iccrg-prague-congestion-control), called `kumade_prague`. Both
    /// ends use it, as with [`LoadedController::dctcp`], and somebody re-marks its packets from ECT(0), as the kernel sends them, to ECT(1).
    ///
    /// # Errors
    /// As [`LoadedController::compound`].
    pub fn prague() -> Result<Self, SetupError> {
        Self::load(Controller::Prague)
    }

    /// The name for [`set`].
    pub fn name(&self) -> &'static str {
        self.controller.name()
    }

    fn load(controller: Controller) -> Result<Self, SetupError> {
        let registration = loader::hold(controller).map_err(|error| {
            let hint = loader::hint(&error);
            SetupError::new(format!("load {} into the kernel", controller.title()), error).with_hint(hint)
        })?;
        Ok(LoadedController { controller, _registration: registration })
    }
}

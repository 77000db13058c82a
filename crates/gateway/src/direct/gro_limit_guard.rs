use kumade_daemon::{Journal, Leftover, RecordedChange};
use kumade_net::gro::GroLimits;
use kumade_net::{SetupError, interface};
use serde::{Deserialize, Serialize};
use std::io;

/// An interface whose batches of arriving packets are bounded. The limits are restored when this is dropped, and by the next
/// gateway where this process was killed.
#[derive(Debug)]
pub(super) struct GroLimitGuard {
    original: RecordedChange<OriginalGroLimits>,
    /// What the interface may merge.
    bytes: u32,
    /// The number of an interface of that name whose limits could not be set.
    refused_index: Option<u32>,
}

/// What is to be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OriginalGroLimits {
    interface: String,
    /// Its number: another interface of that name has another one.
    index: u32,
    v6: Option<u32>,
    v4: Option<u32>,
}

impl GroLimitGuard {
    /// Lets an interface merge no more than so many bytes.
    pub(super) fn new(interface: &str, bytes: u32, journal: &Journal) -> Result<Self, SetupError> {
        let limits = GroLimits::read(interface)?;
        let found = OriginalGroLimits {
            interface: interface.to_owned(),
            index: interface::index(interface)?,
            v6: limits.v6,
            v4: limits.v4,
        };
        let failed = |error: io::Error| SetupError::new(format!("write down the batch limits of {interface}"), error);
        let original = RecordedChange::new(found, journal).map_err(failed)?;
        let guard = GroLimitGuard { original, bytes, refused_index: None };
        limits.capped_at(bytes).set(interface)?;
        Ok(guard)
    }

    /// Whether it lets this interface merge so much.
    pub(super) fn bounds(&self, interface: &str, bytes: u32) -> bool {
        self.original.leftover().interface == interface && self.bytes == bytes
    }

    /// Bounds the batches of an interface that was deleted and made again, too. To be called at any time.
    pub(super) fn follow_interface(&mut self, journal: &Journal) {
        let OriginalGroLimits { interface: name, index: known, .. } = self.original.leftover();
        // Until it is back, there is nothing to bound.
        let Ok(index) = interface::index(name) else { return };
        if index == *known || self.refused_index == Some(index) {
            return;
        }
        match GroLimitGuard::new(name, self.bytes, journal) {
            Ok(renewed) => {
                tracing::warn!("{name} is a new interface (number {index}): its batches are bounded again");
                *self = renewed;
            }
            Err(error) => {
                tracing::warn!("{name} is a new interface (number {index}), whose batches are not bounded: {error}");
                self.refused_index = Some(index);
            }
        }
    }
}

impl Leftover for OriginalGroLimits {
    const KIND: &'static str = "gateway-batches";
    type Error = SetupError;

    fn exists(&self) -> bool {
        interface::index(&self.interface).is_ok_and(|index| index == self.index)
    }

    fn undo(&self) -> Result<(), SetupError> {
        GroLimits { v6: self.v6, v4: self.v4 }.set(&self.interface)
    }

    fn stays(&self) -> String {
        format!("the batch limits of {} stay changed until a gateway starts", self.interface)
    }
}

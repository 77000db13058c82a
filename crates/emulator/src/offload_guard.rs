use crate::error::EmulatorError;
use kumade_daemon::{Journal, Leftover, NameLockError, NamespaceLock, Record, RuntimeDir};
use kumade_net::SetupError;
use kumade_net::interface;
use kumade_net::offloads::{OffloadControl, Offloads};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// An interface that merges no packets as they arrive: its receive offloads are off. They are restored when this is dropped,
/// and by the next guard of any interface where this process was killed. An interface has one guard at a time.
#[derive(Debug)]
pub(crate) struct OffloadGuard {
    name: String,
    switches: OffloadControl,
    original_offloads: Offloads,
    // Go once the offloads are restored.
    record: Option<Record>,
    _interface_lock: NamespaceLock,
}

/// The receive offloads of an interface, switched off.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct OffloadsOff {
    interface: String,
    /// Its number: another interface of that name has another one.
    index: u32,
    /// As they were found.
    offloads: BTreeMap<String, u32>,
}

impl OffloadGuard {
    /// Switches the receive offloads of an interface of the calling thread's namespace off, after restoring those that
    /// killed processes have left off.
    pub(crate) fn new(name: &str) -> Result<Self, EmulatorError> {
        let index = interface::index(name)?;
        let claim = lock_interface(name, index)?;
        let journal = Journal::new(RuntimeDir::standard("kumade"));
        journal.recover::<OffloadsOff>();
        let switches = OffloadControl::open(name)?;
        let found = switches.read()?;
        let record = match record_offloads(&journal, name, index, found) {
            Ok(record) => Some(record),
            Err(error) => {
                tracing::warn!(
                    "cannot write down how the offloads of {name} were set ({error}): should this process be killed, they \
                     stay off; `ethtool -K {name} gro on` switches them on"
                );
                None
            }
        };
        let guard =
            OffloadGuard { name: name.into(), switches, original_offloads: found, record, _interface_lock: claim };
        guard.switches.set(found.without_receive_offloads())?;
        Ok(guard)
    }
}

impl Drop for OffloadGuard {
    fn drop(&mut self) {
        // ENODEV: the interface is gone, and its settings with it.
        const NO_DEVICE_ERRNO: i32 = 19;
        if let Err(error) = self.switches.set(self.original_offloads)
            && error.io_error().raw_os_error() != Some(NO_DEVICE_ERRNO)
        {
            tracing::warn!("the offloads of {} stay off until a link starts: {error}", self.name);
            self.record.take().into_iter().for_each(Record::leave_to_successor);
        }
    }
}

impl Leftover for OffloadsOff {
    const KIND: &'static str = "offloads";
    type Error = SetupError;

    fn exists(&self) -> bool {
        // A later interface of that name has settings of its own.
        interface::index(&self.interface).is_ok_and(|index| index == self.index)
    }

    fn undo(&self) -> Result<(), SetupError> {
        let entries = self.offloads.iter().map(|(key, value)| (key.as_str(), *value));
        OffloadControl::open(&self.interface)?.set(Offloads::from_entries(entries))
    }
}

fn lock_interface(name: &str, index: u32) -> Result<NamespaceLock, EmulatorError> {
    NamespaceLock::new(&format!("interface-{index}")).map_err(|error| match error {
        NameLockError::Taken { process, .. } => EmulatorError::InterfaceInUse { interface: name.into(), process },
        error => EmulatorError::InterfaceLock { interface: name.into(), cause: error.to_string() },
    })
}

fn record_offloads(journal: &Journal, name: &str, index: u32, found: Offloads) -> io::Result<Record> {
    let offloads = found.entries().map(|(key, value)| (key.to_owned(), value)).collect();
    journal.record(&OffloadsOff { interface: name.into(), index, offloads })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let offloads = BTreeMap::from([("tso".to_owned(), 1)]);
        let off = OffloadsOff { interface: "eth0".into(), index: 2, offloads };
        let text = serde_json::to_vec(&off).unwrap();
        assert_eq!(serde_json::from_slice::<OffloadsOff>(&text).unwrap(), off);
        let entries = off.offloads.iter().map(|(key, value)| (key.as_str(), *value));
        assert_eq!(Offloads::from_entries(entries).entries().collect::<Vec<_>>(), [("tso", 1)]);
    }
}

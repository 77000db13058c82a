use crate::journal::{Journal, Leftover, RecordedChange};
use kumade_net::{SetupError, interface, sysctl};
use serde::{Deserialize, Serialize};

/// A setting of the kernel (sysctl) in the calling thread's network namespace that has another value until this is dropped. A
/// [`Journal`] knows of it in case the process is killed.
#[derive(Debug)]
pub struct ChangedSetting {
    _original: RecordedChange<OriginalSetting>,
}

/// What is to be restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OriginalSetting {
    name: String,
    value: String,
    /// As it is meanwhile: where it is another one by now, somebody else wants that.
    changed_value: String,
    /// The interface that the setting is of, with its number: another one of that name has settings of its own.
    interface: Option<(String, u32)>,
}

impl ChangedSetting {
    /// Has reverse path filtering (RFC 3704) see the marks of packets: `net.ipv4.conf.all.src_valid_mark`. None where it does already,
    /// as the administrator has it.
    ///
    /// # Errors
    /// The system refuses it, or it cannot be written down.
    pub fn valid_marks(journal: &Journal) -> Result<Option<Self>, SetupError> {
        ChangedSetting::change("net.ipv4.conf.all.src_valid_mark", "1", None, journal)
    }

    /// Sets how an interface filters IPv4 packets by whether their source would be reached by it: `rp_filter` of ip-sysctl, which
    /// counts where `net.ipv4.conf.all.rp_filter` is not greater. None where it is so already.
    ///
    /// # Errors
    /// The system refuses it, or it cannot be written down.
    pub fn reverse_path_filter(interface: &str, value: u32, journal: &Journal) -> Result<Option<Self>, SetupError> {
        let name = format!("net/ipv4/conf/{interface}/rp_filter");
        ChangedSetting::change(&name, &value.to_string(), Some(interface), journal)
    }

    /// Restores what killed processes have left in this namespace.
    pub fn recover(journal: &Journal) {
        journal.recover::<OriginalSetting>();
    }

    fn change(name: &str, value: &str, of: Option<&str>, journal: &Journal) -> Result<Option<Self>, SetupError> {
        ChangedSetting::recover(journal);
        let failed = |error| SetupError::new(format!("set {name} to {value}"), error);
        let before = sysctl::read(name).map_err(failed)?;
        if before == value {
            return Ok(None);
        }
        let interface = of.map(|name| Ok::<_, SetupError>((name.to_owned(), interface::index(name)?))).transpose()?;
        let original =
            OriginalSetting { name: name.to_owned(), value: before, changed_value: value.to_owned(), interface };
        // From here on restored, also where it is not set.
        let changed = ChangedSetting { _original: RecordedChange::new(original, journal).map_err(failed)? };
        sysctl::write(name, value).map_err(failed)?;
        Ok(Some(changed))
    }
}

impl Leftover for OriginalSetting {
    const KIND: &'static str = "kernel-setting";
    type Error = std::io::Error;

    fn exists(&self) -> bool {
        let is_there = |(name, number): &(String, u32)| interface::index(name).is_ok_and(|index| index == *number);
        self.interface.as_ref().is_none_or(is_there)
            && sysctl::read(&self.name).is_ok_and(|value| value == self.changed_value)
    }

    fn undo(&self) -> std::io::Result<()> {
        sysctl::write(&self.name, &self.value)
    }

    fn stays(&self) -> String {
        format!("{} stays {} until a gateway or a tunnel starts", self.name, self.changed_value)
    }
}

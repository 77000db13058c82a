//! Packets of remote hosts arrive by any path, wherever the main routing table has a route to these hosts: reverse path filtering
//! (RFC 3704) would drop those that the system takes for forged.

use kumade_daemon::{ChangedSetting, Journal};
use kumade_net::{interface, sysctl};

/// The settings of reverse path filtering of an interface: ip-sysctl. The greater of its own and that of all interfaces counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterSettings {
    /// That of all interfaces.
    pub(super) all: u32,
    /// Its own.
    pub(super) own: u32,
}

const OFF: u32 = 0;
const STRICT: u32 = 1;
const LOOSE: u32 = 2;

/// Paths' interfaces whose filter lets packets pass, as far as the administrator's setting for all interfaces allows.
#[derive(Debug, Default)]
pub(super) struct ReversePathGuards {
    interfaces: Vec<GuardedInterface>,
}

#[derive(Debug)]
struct GuardedInterface {
    name: String,
    /// Another interface of that name has another number.
    index: Option<u32>,
    setting: Option<ChangedSetting>,
}

impl FilterSettings {
    /// None where the system does not say.
    pub(super) fn read(interface: &str) -> Option<Self> {
        let number = |name: &str| sysctl::read_number(&format!("net/ipv4/conf/{name}/rp_filter"));
        Some(FilterSettings { all: number("all")?, own: number(interface)? })
    }

    /// What the interface's own setting should be: none that counts; or where all interfaces have the strict filter, the loose one,
    /// which passes what any interface leads back to. Where they have that, it does not matter.
    pub(super) fn wanted(self) -> u32 {
        match self.all {
            OFF => OFF,
            STRICT => LOOSE,
            _ => self.own,
        }
    }

    /// What the setting of all interfaces prevents, and what to try.
    pub(super) fn warning(self, interface: &str) -> Option<String> {
        let kind = match self.all {
            OFF => return None,
            STRICT => "strict",
            _ => "loose",
        };
        Some(format!(
            "net.ipv4.conf.all.rp_filter is {} ({kind}): what arrives by {interface} from hosts to which the main routing table has \
             no route is dropped, as while the interface of the default route is down; with `sysctl -w \
             net.ipv4.conf.all.rp_filter=0`, the gateway sees to it for the interfaces of its paths alone",
            self.all
        ))
    }
}

impl ReversePathGuards {
    /// Has these interfaces let packets pass, and others filter as before.
    pub(super) fn set_interfaces<'i>(&mut self, names: impl Iterator<Item = &'i str> + Clone, journal: &Journal) {
        self.interfaces.retain(|guarded| names.clone().any(|name| name == guarded.name));
        for name in names {
            if !self.interfaces.iter().any(|guarded| guarded.name == name) {
                let mut guarded = GuardedInterface { name: name.to_owned(), index: None, setting: None };
                guarded.follow_interface(journal);
                self.interfaces.push(guarded);
            }
        }
    }

    /// An interface that was deleted and made again has settings of its own. To be called at any time.
    pub(super) fn follow_interfaces(&mut self, journal: &Journal) {
        self.interfaces.iter_mut().for_each(|guarded| guarded.follow_interface(journal));
    }
}

impl GuardedInterface {
    fn follow_interface(&mut self, journal: &Journal) {
        // Until it is back, there is nothing to set.
        let Ok(index) = interface::index(&self.name) else { return };
        if self.index.replace(index) == Some(index) {
            return;
        }
        let Some(settings) = FilterSettings::read(&self.name) else { return };
        if let Some(warning) = settings.warning(&self.name) {
            tracing::warn!("{warning}");
        }
        match ChangedSetting::reverse_path_filter(&self.name, settings.wanted(), journal) {
            Ok(setting) => self.setting = setting,
            Err(error) => tracing::warn!("{error}; without it, packets that arrive by {} may be dropped", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_filters_nothing_or_as_little_as_that_of_all_interfaces_allows() {
        for (all, own, wanted) in
            [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 2), (1, 1, 2), (1, 2, 2), (2, 0, 0), (2, 1, 1)]
        {
            let settings = FilterSettings { all, own };
            // The greater one counts; 1 is strict, and 2 is loose.
            assert_eq!(settings.wanted(), wanted, "{settings:?}");
            assert!(settings.wanted().max(all) != STRICT, "{settings:?}");
            assert_eq!(settings.warning("wan1").is_some(), all > 0, "{settings:?}");
        }
    }
}

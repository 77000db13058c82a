//! A file of several links, which one program runs.
//!
//! ```text
//! [[link]]
//! name = "house-1"                # unless given: that of the program, and the link's number in the file
//! interfaces = ["eth1", "eth2"]   # or tun = ["tun1", "tun2"], which are created
//! settings = "rate 10mbit delay 20ms up loss 0.1%"
//! schedule = "house-1.schedule"   # beside the file
//! ```

use crate::PortSpec;
use crate::session::SessionConfig;
use crate::settings::{Settings, SettingsChange};
use kumade_daemon::{ConfigError, ConfigFault, check_names, find_repeated, parse_config, parse_spanned};
use serde::Deserialize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A link of a file.
#[derive(Debug, Clone)]
pub struct FileLink {
    /// What it is to be.
    pub config: SessionConfig,
    /// The file of its [schedule](crate::schedule).
    pub schedule: Option<PathBuf>,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinksFile {
    #[serde(default)]
    link: Vec<LinkSection>,
}

/// `[[link]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkSection {
    name: Option<Spanned<String>>,
    interfaces: Option<[Spanned<String>; 2]>,
    tun: Option<[Spanned<String>; 2]>,
    settings: Option<Spanned<String>>,
    schedule: Option<PathBuf>,
}

/// Reads the text of the file `origin`. Links without a name are called `program-1`, `program-2` and so on, by their places; file names
/// are relative to `directory`.
///
/// # Errors
/// It is no such file, two links have the same name or interface, or settings are impossible: where, and what to try.
pub fn parse_links(text: &str, origin: &str, program: &str, directory: &Path) -> Result<Vec<FileLink>, ConfigError> {
    let links = parse_config::<LinksFile>(text).and_then(|file| read_sections(&file.link, program, directory));
    links.map_err(|fault| fault.with_line(origin, text))
}

fn read_sections(sections: &[LinkSection], program: &str, directory: &Path) -> Result<Vec<FileLink>, ConfigFault> {
    if sections.is_empty() {
        let problem = "there is no link: write a section [[link]] with `interfaces = [\"eth1\", \"eth2\"]` for each";
        return Err(ConfigFault::new(0..0, problem));
    }
    let name = |(section, number): (&LinkSection, u32)| {
        section.name.clone().unwrap_or_else(|| Spanned::new(section.span(), format!("{program}-{number}")))
    };
    let names: Vec<_> = sections.iter().zip(1..).map(name).collect();
    check_names(&names)?;
    let ports = sections.iter().flat_map(|section| [&section.interfaces, &section.tun]).flatten().flatten();
    for (what, repeated) in [("name", find_repeated(&names)), ("interface", find_repeated(ports))] {
        if let Some(repeated) = repeated {
            let problem = format!("the {what} {} stands here a second time", repeated.get_ref());
            return Err(ConfigFault::new(repeated.span(), problem));
        }
    }
    sections.iter().zip(&names).map(|(section, name)| section.read(name.get_ref(), directory)).collect()
}

impl LinkSection {
    /// Where it stands, as far as what it says tells.
    fn span(&self) -> Range<usize> {
        let first = self.interfaces.as_ref().or(self.tun.as_ref()).map(|[first, _]| first);
        first.or(self.settings.as_ref()).map_or(0..0, Spanned::span)
    }

    fn read(&self, name: &str, directory: &Path) -> Result<FileLink, ConfigFault> {
        let read = |text: &str| {
            let mut change = SettingsChange::parse(text)?;
            change.make_paths_absolute(directory);
            Settings::new(&change)
        };
        let none = Spanned::new(self.span(), String::new());
        let settings = parse_spanned(self.settings.as_ref().unwrap_or(&none), read)?;
        let config = SessionConfig { name: name.to_owned(), ports: self.ports(name)?, settings };
        Ok(FileLink { config, schedule: self.schedule.as_ref().map(|file| directory.join(file)) })
    }

    fn ports(&self, name: &str) -> Result<[PortSpec; 2], ConfigFault> {
        match (&self.interfaces, &self.tun) {
            (Some(names), None) => Ok(names.each_ref().map(|name| PortSpec::Interface(name.get_ref().clone()))),
            (None, Some(names)) => Ok(names.each_ref().map(|name| PortSpec::Tun { name: name.get_ref().clone() })),
            (Some([first, _]), Some(_)) => {
                Err(ConfigFault::new(first.span(), "the link has either `interfaces` or `tun`, not both"))
            }
            (None, None) => {
                let begin = self.name.as_ref().or(self.settings.as_ref()).map_or(0..0, Spanned::span);
                let problem = format!("the link {name} has no interfaces: write `interfaces = [\"eth1\", \"eth2\"]`");
                Err(ConfigFault::new(begin, problem))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<FileLink>, String> {
        parse_links(text, "links.toml", "lab", Path::new("/etc/kumade")).map_err(|error| error.to_string())
    }

    #[test]
    fn links_have_names_interfaces_and_settings_for_each_direction() {
        let text = "[[link]]\nname = 'house'\ninterfaces = ['a', 'b']\nsettings = 'rate 10mbit up loss 1%'\n\
                    [[link]]\ntun = ['c', 'd']\nschedule = 'steps'";
        let links = parse(text).unwrap();
        let [house, other] = &links[..] else { panic!("{links:?}") };
        assert_eq!((house.config.name.as_str(), other.config.name.as_str()), ("house", "lab-2"));
        assert_eq!(house.config.ports[1], PortSpec::Interface("b".into()));
        assert_eq!(other.config.ports[0], PortSpec::Tun { name: "c".into() });
        assert_eq!(house.config.settings.to_texts(), ["rate 10mbit loss 1%", "rate 10mbit"]);
        assert_eq!(other.schedule.as_deref(), Some(Path::new("/etc/kumade/steps")));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, expected) in [
            ("", "there is no link"),
            ("[[link]]\ninterfaces = ['a']", ":2: "),
            ("[[link]]\ninterfaces = ['a', 'b']\nrate = '10mbit'", "unknown field `rate`"),
            ("[[link]]\ninterfaces = ['a', 'b']\nsettings = 'rate 10'", ":3: "),
            ("[[link]]\nname = 'x'\n", ":2: the link x has no interfaces"),
            (
                "[[link]]\ninterfaces = ['a', 'b']\n[[link]]\ninterfaces = ['c', 'a']",
                ":4: the interface a stands here a second",
            ),
            ("[[link]]\nname = 'x'\ntun = ['a', 'b']\n[[link]]\nname = 'x'\ntun = ['c', 'd']", ":5: the name x stands"),
            ("[[link]]\nname = '../x'\ntun = ['a', 'b']", ":2: "),
            ("[[link]]\nname = 'lab-2'\ntun = ['a', 'b']\n[[link]]\ntun = ['c', 'd']", ":5: the name lab-2 stands"),
            ("[[link]]\ninterfaces = ['a', 'b']\ntun = ['c', 'd']", ":2: the link has either"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(expected) && refusal.starts_with("links.toml"), "{text:?}: {refusal}");
        }
    }
}

//! Every queue discipline of the table.

use kumade_link::queue::{DISCIPLINES, Discipline, DisciplineSettings};
use kumade_units::Rate;

/// Each with its defaults for a link of this rate, and with settings under which it acts within a few packets.
pub fn disciplines(rate: Rate) -> Vec<Discipline> {
    let texts = DISCIPLINES.iter().flat_map(|info| [&[info.name], info.test_settings].concat());
    texts.map(|text| text.parse::<DisciplineSettings>().unwrap().discipline(Some(rate))).collect()
}

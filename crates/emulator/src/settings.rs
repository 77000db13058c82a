//! The settings of an emulated link as a user writes them: names, each with a value, as `tc` writes them.
//!
//! ```text
//! rate 100mbit delay 20ms loss 0.1% queue fair-share target 5ms
//! ```
//!
//! The same words stand on the command line, in `kumade link set` and in schedule files; [`SETTING_KEYS`] lists them. A
//! [`SettingsChange`] is some of them for one direction or both. What it does not name stays as it was. It makes new [`Settings`]
//! of others, valid as a whole, with the [`DirectionConfig`]s that the engine takes.

mod change;
mod direction;
mod error;
mod framing;
mod jitter;
mod keys;
mod loss;
mod queue;
mod rules;
mod service_rate;
mod value;

pub use change::{DirectionScope, SettingsChange};
pub use error::SettingError;
pub use keys::{SETTING_KEYS, SettingGroup, SettingKey};

use crate::DirectionConfig;
use direction::DirectionSettings;

/// The settings of both directions of a link, which are possible together.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    directions: [DirectionSettings; 2],
    configs: [DirectionConfig; 2],
}

impl Settings {
    /// What the change makes of a link that does nothing to packets.
    ///
    /// # Errors
    /// A value is impossible, by itself or together with other settings.
    pub fn new(change: &SettingsChange) -> Result<Self, SettingError> {
        Self::with_change_applied(Default::default(), change)
    }

    /// What the change makes of these settings, on a link that runs.
    ///
    /// # Errors
    /// As [`Settings::new`]; or a setting can only be given when the link starts.
    pub fn change(&self, change: &SettingsChange) -> Result<Self, SettingError> {
        let changed = Self::with_change_applied(self.directions.clone(), change)?;
        if self.configs.iter().zip(&changed.configs).any(|(before, after)| before.link.seed != after.link.seed) {
            let reason = "the random numbers are in use already; give it when the link starts".to_owned();
            return Err(SettingError::InvalidValue { key: "seed", reason });
        }
        Ok(changed)
    }

    fn with_change_applied(
        mut directions: [DirectionSettings; 2],
        change: &SettingsChange,
    ) -> Result<Self, SettingError> {
        for (scope, key, value) in change.assignments() {
            direction::apply_setting(&mut directions[scope.directions()], key, value)?;
        }
        let configs = [directions[0].config(0)?, directions[1].config(1)?];
        Ok(Settings { directions, configs })
    }

    /// What the settings make of each direction: up, from the first interface to the second, and down.
    pub fn configs(&self) -> &[DirectionConfig; 2] {
        &self.configs
    }

    /// What has no effect, each in a sentence.
    pub fn warnings(&self) -> Vec<String> {
        let place = |count: usize| if count == 2 { "" } else { " in one direction" };
        let idle: Vec<&str> = self.directions.iter().filter_map(DirectionSettings::discipline_without_rate).collect();
        let queue = idle.first().map(|name| {
            let place = place(idle.len());
            format!("without a rate{place}, no packet waits, and the queue discipline {name} does nothing: give one with --rate")
        });
        let count = |is_idle: fn(&DirectionSettings) -> bool| self.directions.iter().filter(|it| is_idle(it)).count();
        let unframed = count(DirectionSettings::has_framing_without_rate);
        let framing = (unframed > 0).then(|| {
            let place = place(unframed);
            format!("without a rate{place}, overhead, mpu and linklayer do nothing: give one with --rate")
        });
        let still = count(DirectionSettings::spreads_no_jitter);
        let jitter = (still > 0).then(|| {
            let place = place(still);
            format!("without jitter{place}, its distribution, order and correlation do nothing: give it with --jitter")
        });
        [queue, framing, jitter].into_iter().flatten().collect()
    }

    /// The settings of each direction that differ from the default, as [`SettingsChange::parse`] reads them, or `no impairments`.
    pub fn to_texts(&self) -> [String; 2] {
        self.directions.each_ref().map(DirectionSettings::to_string)
    }
}

#[cfg(test)]
mod tests;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use kumade_emulator::settings::{DirectionScope, SETTING_KEYS, SettingError, SettingGroup, SettingKey, SettingsChange};

/// An option for each setting of a link, and one for each direction that takes settings as text.
#[derive(Debug, Clone, Default)]
pub struct SettingOptions {
    /// For both directions, in the order of [`SETTING_KEYS`], in which they have to be set.
    both: Vec<(&'static SettingKey, String)>,
    up: Vec<String>,
    down: Vec<String>,
}

const UP_GROUP: &str = "up";
const DOWN_GROUP: &str = "down";

impl SettingOptions {
    /// The change of settings.
    ///
    /// # Errors
    /// If the text of --up or --down is invalid.
    pub fn settings_change(&self) -> Result<SettingsChange, SettingError> {
        let mut change = SettingsChange::default();
        self.both.iter().for_each(|(key, value)| change.push(DirectionScope::Both, key, value));
        for (scope, texts) in [(DirectionScope::Up, &self.up), (DirectionScope::Down, &self.down)] {
            texts.iter().try_for_each(|text| change.push_words(scope, text))?;
        }
        // The running link may have another working directory.
        if let Ok(here) = std::env::current_dir() {
            change.make_paths_absolute(&here);
        }
        Ok(change)
    }
}

impl FromArgMatches for SettingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = SettingOptions::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let all = |name| matches.get_many::<String>(name).into_iter().flatten().cloned();
        self.both = SETTING_KEYS.iter().flat_map(|key| all(key.name).map(move |value| (key, value))).collect();
        (self.up, self.down) = (all(UP_GROUP).collect(), all(DOWN_GROUP).collect());
        Ok(())
    }
}

impl Args for SettingOptions {
    fn augment_args(command: Command) -> Command {
        let directions = [
            (
                UP_GROUP,
                "Settings for the direction from the first interface to the second, such as 'rate 10mbit loss 1%'",
            ),
            (DOWN_GROUP, "Settings for the direction from the second interface to the first"),
        ];
        let directions = directions.map(|(name, help)| {
            Arg::new(name)
                .long(name)
                .value_name("SETTINGS")
                .help(help)
                .action(ArgAction::Append)
                .help_heading(LINK_HEADING)
        });
        command.args(SETTING_KEYS.iter().map(setting_option)).args(directions)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

const LINK_HEADING: &str = "Link settings";

fn setting_option(key: &'static SettingKey) -> Arg {
    let heading = match key.group {
        SettingGroup::Link => LINK_HEADING,
        SettingGroup::Queue => "Queue settings",
        SettingGroup::Rules => "Firewall rules before the link (options accumulate)",
    };
    let action = if key.group == SettingGroup::Rules { ArgAction::Append } else { ArgAction::Set };
    let option = Arg::new(key.name).long(key.name);
    let option = if key.choices.is_empty() { option } else { option.value_parser(setting_choices(key)) };
    // A negative value is rejected with a reason, instead of being parsed as another option.
    option
        .value_name(key.value)
        .help(&key.help)
        .action(action)
        .help_heading(heading)
        .conflicts_with_all(replaced_settings(key.name))
        .allow_hyphen_values(true)
}

fn setting_choices(key: &'static SettingKey) -> PossibleValuesParser {
    PossibleValuesParser::new(key.choices.iter().map(|(name, help)| PossibleValue::new(name).help(help)))
}

/// Settings that replace this one. In text the later one wins; options have no order.
fn replaced_settings(name: &str) -> &'static [&'static str] {
    match name {
        "rate" => &["trace", "wireless"],
        "trace" => &["wireless"],
        "loss-correlation" => &["loss-burst"],
        "gilbert-elliott" => &["loss", "loss-burst", "loss-correlation"],
        "loss-state" => &["loss", "loss-burst", "loss-correlation", "gilbert-elliott"],
        _ => &[],
    }
}

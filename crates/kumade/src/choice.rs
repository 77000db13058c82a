//! Options whose values are names from a table of the libraries, each followed by parameters.

use clap::builder::{PossibleValue, TypedValueParser};
use kumade_estimate::{METHODS, MethodInfo, MethodSettings};
use kumade_lab::atlas::PathKind;
use kumade_lab::fairness::DisciplineChoice;
use kumade_lab::multipath::Plane;
use std::ffi::OsStr;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::LazyLock;

/// Parses `NAME[:PARAMETER=VALUE]...` as a `T`; help and completions list the names.
#[derive(Clone)]
pub struct NamedChoiceParser<T> {
    parse_text: fn(&str) -> Result<T, String>,
    names: fn() -> Vec<PossibleValue>,
}

impl<T: FromStr<Err: Display>> NamedChoiceParser<T> {
    fn with_names(names: fn() -> Vec<PossibleValue>) -> Self {
        let parse_text = |text: &str| {
            text.parse().map_err(|error: T::Err| {
                let message = error.to_string();
                let nearest = kumade_lab::nearest_choice(&message);
                let advice = nearest.map_or_else(String::new, |name| format!("; perhaps you mean `{name}`"));
                message + &advice
            })
        };
        NamedChoiceParser { parse_text, names }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for NamedChoiceParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.parse_text.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter()))
    }
}

/// An estimation method with its parameters.
pub fn method_parser() -> NamedChoiceParser<MethodSettings> {
    NamedChoiceParser::with_names(|| {
        METHODS.iter().map(|info| PossibleValue::new(info.name).help(method_help(info))).collect()
    })
}

fn method_help(info: &MethodInfo) -> String {
    let parameters = info.parameters().into_iter().map(|parameter| {
        let kumade_estimate::ParameterInfo { name, value, default, help } = parameter;
        format!("; {name}={value}: {help} [default: {default}]")
    });
    let purpose = if info.is_comparison { "for comparison: " } else { "" };
    [purpose.to_owned(), info.summary.to_owned()].into_iter().chain(parameters).collect()
}

/// A queue discipline with its parameters; help lists the names only.
pub fn discipline_parser() -> NamedChoiceParser<DisciplineChoice> {
    NamedChoiceParser::with_names(|| {
        DisciplineChoice::discipline_names().map(|(name, summary)| PossibleValue::new(name).help(summary)).collect()
    })
}

/// An experiment of the catalogue, or a scenario file.
pub fn experiment_parser() -> NamedChoiceParser<String> {
    NamedChoiceParser::with_names(|| {
        EXPERIMENTS.iter().map(|(name, title)| PossibleValue::new(name.as_str()).help(title)).collect()
    })
}

/// Names and titles.
static EXPERIMENTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let experiments = kumade_lab::experiments().unwrap_or_default();
    experiments.iter().map(|each| (each.head().name.to_owned(), each.head().title.to_owned())).collect()
});

/// A kind of path of the atlas.
pub fn path_kind_parser() -> NamedChoiceParser<PathKind> {
    NamedChoiceParser::with_names(|| PathKind::ALL.into_iter().map(|kind| PossibleValue::new(kind.name())).collect())
}

/// What divides packets among several paths.
pub fn plane_parser() -> NamedChoiceParser<Plane> {
    NamedChoiceParser::with_names(|| {
        Plane::plane_names().map(|(name, summary)| PossibleValue::new(name).help(summary)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_methods_of_others_are_marked_as_comparison() {
        let marked = METHODS.iter().filter(|info| method_help(info).starts_with("for comparison: "));
        assert_eq!(marked.map(|info| info.name).collect::<Vec<_>>(), ["pathload", "pathchirp", "igi", "ptr"]);
    }
}

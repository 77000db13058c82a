use kumade_units::{Span, exact_text, parse};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The parameters that a user has set, by name, as the user wrote them.
pub type GivenParameters = BTreeMap<&'static str, String>;

/// A parameter of the settings `C`: what users are told of it, and how it is read.
pub struct Parameter<C> {
    info: ParameterInfo,
    set: Box<SetParameter<C>>,
}

/// Reads a value and stores it.
type SetParameter<C> = dyn Fn(&mut C, &str) -> Result<(), String> + Send + Sync;

/// What users are told of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterInfo {
    /// The name that users write.
    pub name: &'static str,
    /// What stands for the value in help texts, such as `TIME`.
    pub value: &'static str,
    /// One line for help texts.
    pub help: &'static str,
    /// The value unless it is set, as users write it or in words; none where there is nothing by default.
    pub default: Option<String>,
    /// Parameters that are no longer set once this one is.
    pub replaces: &'static [&'static str],
}

/// How users write values of type `T`.
pub(super) struct ParameterFormat<T: 'static> {
    pub(super) placeholder: &'static str,
    pub(super) read: fn(&str) -> Result<T, String>,
    pub(super) show: fn(&T) -> String,
}

impl<C: Default + 'static> Parameter<C> {
    /// A parameter that is kept in `field`. Its default is the one of `C`.
    pub(super) fn new<T>(
        name: &'static str,
        format: ParameterFormat<T>,
        help: &'static str,
        field: fn(&mut C) -> &mut T,
    ) -> Self {
        let default = Some((format.show)(field(&mut C::default())));
        let set = Box::new(move |config: &mut C, text: &str| {
            let value = (format.read)(text)?;
            *field(config) = value;
            Ok(())
        });
        Parameter { info: ParameterInfo { name, value: format.placeholder, help, default, replaces: &[] }, set }
    }

    /// The same with a default that depends on the link, in words.
    pub(super) fn with_rate_default(mut self, default: &str) -> Self {
        self.info.default = Some(default.to_owned());
        self
    }

    /// The same, as an alternative to other parameters.
    pub(super) fn replaces(mut self, others: &'static [&'static str]) -> Self {
        self.info.replaces = others;
        self
    }

    /// The same without a default.
    pub(super) fn made_optional(mut self) -> Self {
        self.info.default = None;
        self
    }

    pub(super) fn info(&self) -> &ParameterInfo {
        &self.info
    }

    /// Reads a value and stores it. After an error the settings are unchanged.
    pub(super) fn set(&self, config: &mut C, text: &str) -> Result<(), String> {
        (self.set)(config, text)
    }
}

/// What `ecn` does, in every discipline that has it.
pub(super) const ECN_HELP: &str = "mark packets of ECN-capable senders instead of dropping them";

pub(super) const TIME_FORMAT: ParameterFormat<Span> = ParameterFormat {
    placeholder: "TIME",
    read: |text| as_reason(parse::span(text)),
    show: |span| exact_text::span(*span),
};
pub(super) const SIZE_FORMAT: ParameterFormat<u64> = ParameterFormat {
    placeholder: "SIZE",
    read: |text| as_reason(parse::bytes(text)),
    show: |bytes| exact_text::bytes(*bytes),
};
pub(super) const SMALL_SIZE_FORMAT: ParameterFormat<u32> =
    ParameterFormat { placeholder: "SIZE", read: parse_small_size, show: |bytes| exact_text::bytes((*bytes).into()) };
pub(super) const NUMBER_FORMAT: ParameterFormat<u32> =
    ParameterFormat { placeholder: "N", read: |text| as_reason(parse::number(text)), show: u32::to_string };
pub(super) const RATIO_FORMAT: ParameterFormat<f64> = ParameterFormat {
    placeholder: "PART",
    read: |text| as_reason(parse::ratio(text)),
    show: |ratio| exact_text::ratio(*ratio),
};
pub(super) const SWITCH_FORMAT: ParameterFormat<bool> = ParameterFormat {
    placeholder: "on|off",
    read: |text| parse_choice(text, [("on", true), ("off", false)]),
    show: |on| if *on { "on".to_owned() } else { "off".to_owned() },
};

/// One of these words.
pub(super) fn parse_choice<T, const N: usize>(text: &str, choices: [(&str, T); N]) -> Result<T, String> {
    let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
    let refused = match &names[..] {
        [one, other] => format!("`{text}` is neither {one} nor {other}"),
        _ => format!("`{text}` is none of {}", names.join(", ")),
    };
    choices.into_iter().find(|(name, _)| *name == text).map(|(_, value)| value).ok_or(refused)
}

pub(super) fn as_reason<T>(read: Result<T, impl Display>) -> Result<T, String> {
    read.map_err(|error| error.to_string())
}

fn parse_small_size(text: &str) -> Result<u32, String> {
    let bytes = as_reason(parse::byte_count(text))?;
    u32::try_from(bytes).map_err(|_| format!("`{text}` is too large; give less than 4g"))
}

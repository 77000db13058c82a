//! What a method defines so that users can choose it, and what it is told of the path as it is built.

use crate::capacity::Shaping;
use crate::method::Method;
use kumade_units::{Rate, Span};
use std::fmt;

/// What a method is told of the path and of what it may cost, besides its own parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// What is known of a token bucket on the path.
    pub shaping: Shaping,
    /// The largest packet that the transport carries in one piece: bytes of the whole IP packet.
    pub max_packet: u32,
    /// Whether the transport sends packets in bursts that are too close together to be sent one by one, and as many as a train may
    /// have: see [`Train::bursts`](kumade_probe_train::Train::bursts).
    pub bursts: bool,
    /// What the measurement may cost, as far as the user has requested it.
    pub budget: RequestedBudget,
    /// Seed of everything random in the method.
    pub seed: u64,
}

impl Conditions {
    /// Nothing known of the path but its largest packet, packets sent one by one, the method's own budget, and always the same seed.
    pub fn new(max_packet: u32) -> Self {
        Conditions {
            shaping: Shaping::Unknown,
            max_packet,
            bursts: false,
            budget: RequestedBudget::default(),
            seed: 0x6b75_6d61_6465,
        }
    }
}

/// The budget that a user requests for a measurement, in whole or in part: it replaces the method's own [`Budget`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestedBudget {
    /// Maximum number of IP bytes to send; none leaves it to the method.
    pub bytes: Option<u64>,
    /// Maximum duration; none leaves it to the method.
    pub time: Option<Span>,
}

/// The budget of a measurement: both limits apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of IP bytes to send.
    pub bytes: u64,
    /// Maximum duration.
    pub time: Span,
}

impl Budget {
    /// The requested limits, and these where none are requested.
    pub fn or_requested(self, requested: RequestedBudget) -> Self {
        Budget { bytes: requested.bytes.unwrap_or(self.bytes), time: requested.time.unwrap_or(self.time) }
    }
}

/// A method's parameters as a type, and what users see of it. The default has the published numbers.
///
/// A method becomes one that users can choose by an entry in [`METHODS`](crate::METHODS); a program with a method of its
/// own makes [`MethodSettings`](crate::MethodSettings) of its configuration.
pub trait MethodConfig: fmt::Debug + Clone + PartialEq + Default + Send + Sync + 'static {
    /// How users and reports call the method.
    const NAME: &'static str;
    /// What it does, in one line of help.
    const SUMMARY: &'static str;
    /// Whether it is here to be compared with: a published method of others.
    const IS_COMPARISON: bool = false;
    /// What users can set.
    const PARAMETERS: &'static [Parameter<Self>] = &[];
    /// Whether it measures correctly behind a token bucket that [`Conditions::shaping`] tells of. Other methods take
    /// what passes in a burst for the sustained rate.
    const HANDLES_TOKEN_BUCKET: bool = false;
    /// What it costs at most where [`Conditions::budget`] does not say otherwise; none where the parameters alone say what
    /// is sent, and no budget limits it.
    const BUDGET: Option<Budget>;

    /// The largest number of packets in one train; with [`Conditions::bursts`] there may be more.
    fn max_packets(&self) -> u32;

    /// Whether the parameters' values go together.
    ///
    /// # Errors
    /// Says what is wrong with the combination, for users.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Adapts parameters that are not set, and whose published values suit one rate only, to a bottleneck of this rate.
    fn adapt_to_rate(&mut self, rate: Rate) {
        let _ = rate;
    }

    /// The method, ready to measure.
    fn build(&self, conditions: &Conditions) -> Box<dyn Method>;
}

/// One parameter of a method whose parameters are `C`.
pub struct Parameter<C> {
    /// How users call it.
    pub name: &'static str,
    /// What kind of value it takes, such as `TIME`.
    pub value: &'static str,
    /// Its value unless another is set.
    pub default: &'static str,
    /// What it means, in a few words of help.
    pub help: &'static str,
    /// Sets it from a user's text; the error says what is wrong with the text and what may stand there.
    pub set: fn(&mut C, &str) -> Result<(), String>,
    /// Writes it so that `set` reads the same again.
    pub get: fn(&C) -> String,
}

/// Puts a value that could be read into its place.
pub(crate) fn set_parameter<T, E: fmt::Display>(place: &mut T, value: Result<T, E>) -> Result<(), String> {
    *place = value.map_err(|error| error.to_string())?;
    Ok(())
}

/// A parameter as users see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterInfo {
    /// How users call it.
    pub name: &'static str,
    /// What kind of value it takes, such as `TIME`.
    pub value: &'static str,
    /// Its value unless another is set.
    pub default: &'static str,
    /// What it means, in a few words of help.
    pub help: &'static str,
}

impl<C> Parameter<C> {
    /// What users see of it.
    pub fn info(&self) -> ParameterInfo {
        ParameterInfo { name: self.name, value: self.value, default: self.default, help: self.help }
    }
}

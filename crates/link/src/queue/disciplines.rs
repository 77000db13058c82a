//! The table of queue disciplines. A discipline is a file of this module and a line of the table below; command line,
//! lab and tests take what they know of disciplines from [`DISCIPLINES`].

mod active_dropping;
mod afd;
mod cake;
mod ce_threshold;
mod choke;
mod codel;
mod dual_pi2;
mod fair_codel;
mod fair_share;
mod fq_codel;
mod pie;
mod red;
mod tail_drop;

pub use cake::{Isolation, TinLayout};
pub use codel::ControlLaw;
pub use dual_pi2::DualQueueScheduler;
pub use red::RedQueue;

use super::discipline::{DisciplineConfig, QueueDiscipline};
use super::packet::{DroppedPacket, QueueLimit, QueuedPacket};
use super::parameter::{GivenParameters, Parameter, ParameterInfo};
use crate::framing::Framing;
use crate::ledger::DropCause;
use crate::random::mix_bits;
use crate::valid::Valid;
use kumade_units::{ConfigError, Rate, Time};
use std::sync::LazyLock;

/// A discipline as users are told of it.
#[derive(Debug, Clone, Copy)]
pub struct DisciplineInfo {
    /// The name that users write.
    pub name: &'static str,
    /// One line for help texts.
    pub summary: &'static str,
    /// Settings for tests; see [`DisciplineConfig::TEST_SETTINGS`].
    pub test_settings: &'static [&'static str],
    /// How much can be queued unless a user says so; see [`DisciplineConfig::DEFAULT_LIMIT`].
    pub default_limit: QueueLimit,
    parameters: fn() -> Vec<&'static ParameterInfo>,
    default: fn() -> Discipline,
}

/// A discipline and the capacity of its queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueConfig {
    /// How much can be queued.
    pub limit: QueueLimit,
    /// What decides which packets are queued, sent and dropped.
    pub discipline: Discipline,
}

/// Makes of the table all that differs from discipline to discipline.
macro_rules! disciplines {
    ($($module:ident::$name:ident($config:ident),)*) => {
        $(pub use $module::{$name, $config};)*

        /// All disciplines, in the order in which users are told of them. The first is the default.
        pub static DISCIPLINES: &[DisciplineInfo] =
            &[$(DisciplineInfo::for_config::<$config>(|| Discipline::$name($config::default())),)*];

        /// A discipline with its settings.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each is documented at its settings")]
        pub enum Discipline {
            $($name($config),)*
        }

        /// A queue of any discipline.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each is documented where it is defined")]
        pub enum Queue<P> {
            $($name(<$config as DisciplineConfig>::Queue<P>),)*
        }

        $(impl From<$config> for Discipline {
            fn from(config: $config) -> Self {
                Discipline::$name(config)
            }
        })*

        $(impl DisciplineParameters for $config {
            fn parameter_table() -> &'static [Parameter<Self>] {
                static TABLE: LazyLock<Vec<Parameter<$config>>> = LazyLock::new($config::parameters);
                &TABLE
            }
        })*

        impl Discipline {
            pub(super) fn check(&self) -> Result<(), ConfigError> {
                match self { $(Discipline::$name(config) => config.check(),)* }
            }

            pub(super) fn adapt_to_rate(&mut self, rate: Option<Rate>, given: &GivenParameters) {
                match self { $(Discipline::$name(config) => config.adapt_to_rate(rate, given),)* }
            }

            /// Adapts the settings to what the link adds to each packet.
            pub fn adapt_to_framing(&mut self, framing: Framing) {
                match self { $(Discipline::$name(config) => config.adapt_to_framing(framing),)* }
            }

            /// Reads a value of a parameter and stores it; none where there is no such parameter.
            pub(super) fn set(&mut self, parameter: &str, text: &str) -> Option<Result<&'static ParameterInfo, String>> {
                match self { $(Discipline::$name(config) => set_parameter(config, parameter, text),)* }
            }

            /// What users are told of it.
            pub fn info(&self) -> &'static DisciplineInfo {
                let name = match self { $(Discipline::$name(_) => $config::NAME,)* };
                DISCIPLINES.iter().find(|info| info.name == name).unwrap_or(&DISCIPLINES[0])
            }

            fn new_queue<P>(&self, limit: QueueLimit, seed: u64) -> Queue<P> {
                match self { $(Discipline::$name(config) => Queue::$name(config.new_queue(limit, seed)),)* }
            }
        }

        impl<P> QueueDiscipline<P> for Queue<P> {
            fn enqueue(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<(), DropCause> {
                match self { $(Queue::$name(queue) => queue.enqueue(packet, drops),)* }
            }

            fn dequeue(&mut self, now: Time, drops: &mut Vec<DroppedPacket<P>>) -> Option<QueuedPacket<P>> {
                match self { $(Queue::$name(queue) => queue.dequeue(now, drops),)* }
            }

            fn pass_through(&mut self, packet: QueuedPacket<P>, drops: &mut Vec<DroppedPacket<P>>) -> Result<QueuedPacket<P>, DropCause> {
                match self { $(Queue::$name(queue) => queue.pass_through(packet, drops),)* }
            }

            fn next_event(&self) -> Option<Time> {
                match self { $(Queue::$name(queue) => QueueDiscipline::<P>::next_event(queue),)* }
            }

            fn packets(&self) -> usize {
                match self { $(Queue::$name(queue) => queue.packets(),)* }
            }

            fn bytes(&self) -> u64 {
                match self { $(Queue::$name(queue) => queue.bytes(),)* }
            }
        }
    };
}

disciplines! {
    tail_drop::TailDrop(TailDropConfig),
    codel::CoDel(CoDelConfig),
    red::Red(RedConfig),
    active_dropping::ActiveDropping(ActiveDroppingConfig),
    fair_codel::FairCoDel(FairCoDelConfig),
    choke::Choke(ChokeConfig),
    afd::Afd(AfdConfig),
    fq_codel::FqCoDel(FqCoDelConfig),
    fair_share::FairShare(FairShareConfig),
    pie::Pie(PieConfig),
    cake::Cake(CakeConfig),
    dual_pi2::DualPi2(DualPi2Config),
    ce_threshold::CeThreshold(CeThresholdConfig),
}

impl DisciplineInfo {
    const fn for_config<C: DisciplineParameters>(default: fn() -> Discipline) -> Self {
        let parameters = || C::parameter_table().iter().map(Parameter::info).collect();
        DisciplineInfo {
            name: C::NAME,
            summary: C::SUMMARY,
            test_settings: C::TEST_SETTINGS,
            default_limit: C::DEFAULT_LIMIT,
            parameters,
            default,
        }
    }

    /// What can be set.
    pub fn parameters(&self) -> Vec<&'static ParameterInfo> {
        (self.parameters)()
    }

    /// The discipline with its defaults.
    pub fn defaults(&self) -> Discipline {
        (self.default)()
    }
}

impl Default for Discipline {
    fn default() -> Self {
        DISCIPLINES[0].defaults()
    }
}

impl QueueConfig {
    /// Whether a queue can be made of these settings.
    ///
    /// # Errors
    /// A value is out of range; the error names it and says what to give instead.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.discipline.check()
    }

    /// Checks the settings, for [`Queue`] and [`crate::Link`] to take.
    ///
    /// # Errors
    /// As [`QueueConfig::check`].
    pub fn validate(self) -> Result<Valid<Self>, ConfigError> {
        self.check()?;
        Ok(Valid(self))
    }
}

impl<P> Queue<P> {
    /// An empty queue. Its random decisions follow from `seed`.
    pub fn new(config: &Valid<QueueConfig>, seed: u64) -> Self {
        // A link draws losses from the same seed; the two must be independent.
        config.discipline.new_queue(config.limit, mix_bits(seed))
    }
}

/// The parameters of a discipline, made once.
trait DisciplineParameters: DisciplineConfig {
    fn parameter_table() -> &'static [Parameter<Self>];
}

fn set_parameter<C: DisciplineParameters>(
    config: &mut C,
    parameter: &str,
    text: &str,
) -> Option<Result<&'static ParameterInfo, String>> {
    let parameter = C::parameter_table().iter().find(|known| known.info().name == parameter)?;
    Some(parameter.set(config, text).map(|()| parameter.info()))
}

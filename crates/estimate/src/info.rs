//! What the table of methods holds: a configuration of any type, and what users see of it.

use crate::config::{Budget, Conditions, MethodConfig, Parameter, ParameterInfo};
use crate::method::Method;
use kumade_units::{Rate, parse};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A text that does not name a method with parameters.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MethodError {
    /// There is no such method.
    #[error("`{name}` is not a method; choose one of {}", .known.join(", "))]
    UnknownMethod {
        /// As given.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// The method has no such parameter.
    #[error("the method {method} has no parameter `{name}`: it has {}", list_parameters(.known))]
    UnknownParameter {
        /// The method.
        method: &'static str,
        /// As given.
        name: String,
        /// Those that it has.
        known: Vec<&'static str>,
    },
    /// The parameter cannot have this value.
    #[error("{method}: {parameter}={value}: {problem}")]
    InvalidValue {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// As given.
        value: String,
        /// What is wrong with it, and what may stand there.
        problem: String,
    },
    /// The values do not go together.
    #[error("{method}: {problem}")]
    InvalidCombination {
        /// The method.
        method: &'static str,
        /// What is wrong with them.
        problem: String,
    },
    /// What follows the name is not a list of parameters.
    #[error(transparent)]
    MalformedParameters(#[from] parse::ParseError),
}

fn list_parameters(parameters: &[&str]) -> String {
    if parameters.is_empty() { "no parameters".to_owned() } else { parameters.join(", ") }
}

/// An entry of [`METHODS`](crate::METHODS): what users see of a method.
#[derive(Debug, Clone, Copy)]
pub struct MethodInfo {
    /// How users and reports call it.
    pub name: &'static str,
    /// What it does, in one line of help.
    pub summary: &'static str,
    /// Whether it is here to be compared with: a published method of others.
    pub is_comparison: bool,
    parameters: fn() -> Vec<ParameterInfo>,
    parse: ParseParameters,
}

/// Makes a configuration of the parameters that are given, and their values.
type ParseParameters = fn(&[(&str, &str)]) -> Result<Arc<dyn AnyConfig>, MethodError>;

impl MethodInfo {
    /// The method that is configured by `C`.
    pub(crate) const fn for_config<C: MethodConfig>() -> Self {
        let parameters = || C::PARAMETERS.iter().map(Parameter::info).collect();
        MethodInfo {
            name: C::NAME,
            summary: C::SUMMARY,
            is_comparison: C::IS_COMPARISON,
            parameters,
            parse: parse_config::<C>,
        }
    }

    /// What users can set.
    pub fn parameters(&self) -> Vec<ParameterInfo> {
        (self.parameters)()
    }

    /// The method with these parameters, as users write them.
    pub(crate) fn parse_parameters(&self, given: &[(&str, &str)]) -> Result<Arc<dyn AnyConfig>, MethodError> {
        (self.parse)(given)
    }
}

fn parse_config<C: MethodConfig>(given: &[(&str, &str)]) -> Result<Arc<dyn AnyConfig>, MethodError> {
    let (method, mut config) = (C::NAME, C::default());
    for &(name, text) in given {
        let Some(parameter) = C::PARAMETERS.iter().find(|parameter| parameter.name == name) else {
            let known = C::PARAMETERS.iter().map(|parameter| parameter.name).collect();
            return Err(MethodError::UnknownParameter { method, name: name.to_owned(), known });
        };
        let wrong = |problem| {
            let (parameter, value) = (parameter.name, text.to_owned());
            MethodError::InvalidValue { method, parameter, value, problem }
        };
        (parameter.set)(&mut config, text).map_err(wrong)?;
    }
    config.check().map_err(|problem| MethodError::InvalidCombination { method, problem })?;
    Ok(Arc::new(config))
}

/// A [`MethodConfig`] of any type.
pub(crate) trait AnyConfig: fmt::Debug + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn equals(&self, other: &dyn Any) -> bool;
    fn name(&self) -> &'static str;
    fn max_packets(&self) -> u32;
    fn handles_token_bucket(&self) -> bool;
    fn budget(&self) -> Option<Budget>;
    fn changed_parameters(&self) -> Vec<(&'static str, String)>;
    fn adapted_to_rate(&self, rate: Rate) -> Arc<dyn AnyConfig>;
    fn build(&self, conditions: &Conditions) -> Box<dyn Method>;
}

impl<C: MethodConfig> AnyConfig for C {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn name(&self) -> &'static str {
        C::NAME
    }

    fn max_packets(&self) -> u32 {
        MethodConfig::max_packets(self)
    }

    fn handles_token_bucket(&self) -> bool {
        C::HANDLES_TOKEN_BUCKET
    }

    fn budget(&self) -> Option<Budget> {
        C::BUDGET
    }

    /// The parameters that differ from their defaults.
    fn changed_parameters(&self) -> Vec<(&'static str, String)> {
        let text = |parameter: &Parameter<C>| {
            let text = (parameter.get)(self);
            (text != (parameter.get)(&C::default())).then_some((parameter.name, text))
        };
        C::PARAMETERS.iter().filter_map(text).collect()
    }

    fn adapted_to_rate(&self, rate: Rate) -> Arc<dyn AnyConfig> {
        let mut config = self.clone();
        config.adapt_to_rate(rate);
        Arc::new(config)
    }

    fn build(&self, conditions: &Conditions) -> Box<dyn Method> {
        MethodConfig::build(self, conditions)
    }
}

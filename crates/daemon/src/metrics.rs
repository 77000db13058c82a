//! Metrics from tables that say of each its name, its help text and where its value is.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::{self, Debug};

/// What a metric is of, such as `("path", "one")`.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;
/// What metrics are of, with the labels of each.
pub type LabelledItems<'a, T> = [(Labels<'a>, &'a T)];
/// Name, help text, value; metrics without a value are left out.
pub type Gauge<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);
/// Name without `_total`, help text, value.
pub type Counter<T> = (&'static str, &'static str, fn(&T) -> u64);

/// A document as OpenMetrics text. The names of metrics begin with `prefix`.
pub fn encode_text(prefix: &str, metrics: impl Collector + 'static) -> String {
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(metrics));
    let mut out = String::new();
    // A string takes everything, so that nothing can fail.
    let _ = text::encode(&mut out, &registry);
    out
}

/// Writes metrics.
#[derive(Debug)]
pub struct Encoder<'a, 'e> {
    encoder: &'a mut DescriptorEncoder<'e>,
    prefix: &'static str,
}

impl<'a, 'e> Encoder<'a, 'e> {
    /// Their names begin with `prefix`, behind that of the program.
    pub fn new(encoder: &'a mut DescriptorEncoder<'e>, prefix: &'static str) -> Self {
        Encoder { encoder, prefix }
    }

    /// A metric of its own.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn encode_metric(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl FnOnce(MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let name = format!("{}{name}", self.prefix);
        write(self.encoder.encode_descriptor(&name, help, None, kind)?)
    }

    /// Gauges of all items.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn encode_gauges<T>(&mut self, of: &LabelledItems<'_, T>, gauges: &[Gauge<T>]) -> fmt::Result {
        for (name, help, value) in gauges {
            self.encode_metric(name, help, MetricType::Gauge, |mut metric| {
                let mut known = of.iter().filter_map(|(labels, item)| Some((labels, value(item)?)));
                known.try_for_each(|(labels, value)| metric.encode_family(labels)?.encode_gauge(&value))
            })?;
        }
        Ok(())
    }

    /// Counters of all items.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn encode_counters<T>(&mut self, of: &LabelledItems<'_, T>, counters: &[Counter<T>]) -> fmt::Result {
        for (name, help, value) in counters {
            self.encode_counts(name, help, of.iter().map(|(labels, item)| (labels.clone(), value(item))))?;
        }
        Ok(())
    }

    /// Counters under one name, each with labels of its own.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn encode_counts<'l>(
        &mut self,
        name: &str,
        help: &str,
        counts: impl IntoIterator<Item = (Labels<'l>, u64)>,
    ) -> fmt::Result {
        self.encode_metric(name, help, MetricType::Counter, |mut metric| {
            let mut counts = counts.into_iter();
            counts.try_for_each(|(labels, count)| {
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)
            })
        })
    }
}

/// 1 or 0.
pub fn bool_as_f64(value: bool) -> f64 {
    f64::from(u8::from(value))
}

//! Metrics from tables that say of each its name, its help text and where its value is.

use crate::refused::RefusedTraffic;
use crate::traffic::Traffic;
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
/// The beginning of the names, the end of the help texts, value.
pub type TrafficCounter<T> = (&'static str, &'static str, fn(&T) -> &Traffic);

const REFUSED_COUNTERS: [Counter<RefusedTraffic>; 1] = [(
    "wrong_key_handshakes",
    "Handshakes of senders that have no key of a peer, or take this end for another",
    |refused| refused.wrong_key_handshakes,
)];

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
            self.encode_metric(name, help, MetricType::Counter, |metric| {
                encode_counts(metric, of.iter().map(|(labels, item)| (labels.clone(), value(item))))
            })?;
        }
        Ok(())
    }

    /// Packets and bytes, a counter each.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub fn encode_traffic<T>(&mut self, of: &LabelledItems<'_, T>, kinds: &[TrafficCounter<T>]) -> fmt::Result {
        type TrafficPart = fn(&Traffic) -> u64;
        let units: [(&str, &str, TrafficPart); 2] = [
            ("packets", "Packets", |traffic| traffic.packets),
            ("bytes", "Bytes of IP packets", |traffic| traffic.bytes),
        ];
        for (kind, what, traffic) in kinds {
            for (unit, subject, value) in units {
                let (name, help) = (format!("{kind}_{unit}"), format!("{subject} {what}"));
                self.encode_metric(&name, &help, MetricType::Counter, |metric| {
                    encode_counts(metric, of.iter().map(|(labels, item)| (labels.clone(), value(traffic(item)))))
                })?;
            }
        }
        Ok(())
    }

    /// What was refused, by its cause.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn encode_refused(&mut self, of: (&'static str, &str), refused: &RefusedTraffic) -> fmt::Result {
        let help = "Packets and datagrams that were not carried";
        let causes = [
            ("unroutable", refused.unroutable_packets),
            ("foreign_source", refused.foreign_source_packets),
            ("datagram", refused.datagrams),
            ("handshake", refused.handshakes),
            ("output", refused.output_packets),
        ];
        self.encode_metric("refused_packets", help, MetricType::Counter, |metric| {
            encode_counts(metric, causes.into_iter().map(|(cause, count)| (vec![of, ("cause", cause)], count)))
        })?;
        self.encode_counters(&[(vec![of], refused)], &REFUSED_COUNTERS)
    }
}

fn encode_counts<'a>(
    mut metric: MetricEncoder<'_>,
    counts: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> fmt::Result {
    let mut counts = counts.into_iter();
    counts.try_for_each(|(labels, count)| {
        metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)
    })
}

/// 1 or 0.
pub fn bool_as_f64(value: bool) -> f64 {
    f64::from(u8::from(value))
}

use super::figures::Confidence;
use kumade_estimate::delay::Deliveries;
use kumade_probe_train::Estimate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Counts of packets that were sent, arrived, were lost, duplicated or reordered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketReport {
    /// Packets sent.
    pub sent: u32,
    /// Packets that arrived in time: within one second for probe and reply together.
    pub arrived: u32,
    /// Packets that arrived later, which are not counted as lost. Null for trains: their receivers do not wait for late
    /// packets and count them as lost.
    pub late: Option<u32>,
    /// Packets that did not arrive.
    pub lost: u32,
    /// Ratio of lost to sent packets, with a confidence interval for the path's loss ratio, if losses are independent.
    pub loss_ratio: Estimate<f64>,
    /// Duplicates (RFC 5560); null for trains, whose receivers ignore them.
    pub duplicates: Option<u32>,
    /// Reordered packets: those that arrived after one that was sent later (RFC 4737).
    pub reordered: u32,
    /// Ratio of reordered packets to those that arrived.
    pub reordering_ratio: f64,
    /// Maximum reordering extent in packets (RFC 4737, 4.2).
    pub reordering_extent: u32,
}

impl PacketReport {
    /// Of trains, whose receivers ignore duplicates and do not wait for late packets.
    pub fn from_trains(counts: Deliveries) -> Self {
        PacketReport { late: None, duplicates: None, ..counts.into() }
    }
}

impl From<Deliveries> for PacketReport {
    fn from(counts: Deliveries) -> Self {
        PacketReport {
            sent: counts.sent,
            arrived: counts.arrived,
            late: Some(counts.late),
            lost: counts.lost,
            loss_ratio: counts.loss_ratio(),
            duplicates: Some(counts.duplicates),
            reordered: counts.reordered,
            reordering_ratio: counts.reordering_ratio(),
            reordering_extent: counts.reordering_extent,
        }
    }
}

impl fmt::Display for PacketReport {
    /// `200 sent, 1 lost (0.50 %; 95 %: 0.09 % … 2.78 %), 2 late, 3 duplicates, 4 reordered (extent 2)`; counts of
    /// zero are left out, except loss.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, low, high, confidence } = self.loss_ratio;
        let [value, low, high] = [value, low, high].map(|part| part * 100.0);
        let confidence = Confidence(confidence);
        write!(f, "{} sent, {} lost ({value:.2} %; {confidence}: {low:.2} % … {high:.2} %)", self.sent, self.lost)?;
        if let Some(late @ 1..) = self.late {
            write!(f, ", {late} late")?;
        }
        if let Some(duplicates @ 1..) = self.duplicates {
            write!(f, ", {duplicates} duplicates")?;
        }
        if self.reordered > 0 {
            write!(f, ", {} reordered (extent {})", self.reordered, self.reordering_extent)?;
        }
        Ok(())
    }
}

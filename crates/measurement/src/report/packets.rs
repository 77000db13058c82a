use super::figures::Confidence;
use estimate::delay::Deliveries;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use train::Estimate;

/// What became of packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketReport {
    /// Packets sent.
    pub sent: u32,
    /// Packets that arrived within the deadline: a second for probe and reply together.
    pub arrived: u32,
    /// Packets that arrived later: they are not lost. Null for trains, which do not wait for them: there they are lost.
    pub late: Option<u32>,
    /// Packets that never arrived.
    pub lost: u32,
    /// Those as a part of all, and what the path may lose in the long run, were each packet lost by itself.
    pub loss_ratio: Estimate<f64>,
    /// Further copies (RFC 5560); null for trains, where they are passed over.
    pub duplicates: Option<u32>,
    /// Packets that arrived behind one that was sent later (RFC 4737).
    pub reordered: u32,
    /// Those as a part of all that arrived.
    pub reordering_ratio: f64,
    /// The most places by which one came behind.
    pub reordering_extent: u32,
}

impl PacketReport {
    /// Of trains, whose receivers pass copies over and do not wait for what is late.
    pub fn of_trains(counts: Deliveries) -> Self {
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
    /// `200 sent, 1 lost (0.50 %; 95 %: 0.09 % … 2.78 %), 2 late, 3 duplicates, 4 reordered (by up to 2 places)`; zeros but
    /// for loss are left out.
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
            write!(f, ", {} reordered (by up to {} places)", self.reordered, self.reordering_extent)?;
        }
        Ok(())
    }
}

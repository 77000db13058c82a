//! A table of mixes of connections, each with its own bottleneck, and what was published of it. As CSV with the columns
//! `row, bottleneck_mbps, bottleneck_delay_ms, buffer_packets, groups, jain_fifo, jain_fq_codel, jain_cebinae,
//! goodput_fifo_mbps, goodput_fq_codel_mbps, goodput_cebinae_mbps`; groups read `2xNewReno@0.2 + 8xNewReno@2`: number,
//! congestion control and delay in milliseconds of the leaf links, of which each path has one at both ends.

use crate::fairness::{ConnectionGroup, FairnessCase, PublishedMix, PublishedShare};
use kumade_link::queue::QueueLimit;
use kumade_sim::tcp::congestion::CongestionControl;
use kumade_units::{Rate, Span};
use serde::Deserialize;

/// One line of the file.
#[derive(Debug, Deserialize)]
struct MixLine {
    row: u32,
    bottleneck_mbps: f64,
    bottleneck_delay_ms: f64,
    buffer_packets: u64,
    #[serde(rename = "groups (count x control @ leaf delay ms)", alias = "groups")]
    groups: String,
    jain_fifo: f64,
    jain_fq_codel: f64,
    jain_cebinae: f64,
    goodput_fifo_mbps: f64,
    goodput_fq_codel_mbps: f64,
    goodput_cebinae_mbps: f64,
}

/// The cases of such a table.
///
/// # Errors
/// Names the line and what is wrong with it.
pub fn parse_mixes(text: &str) -> Result<Vec<FairnessCase>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize::<MixLine>().map(|line| line.map_err(|error| error.to_string())?.to_case()).collect()
}

impl MixLine {
    fn to_case(&self) -> Result<FairnessCase, String> {
        let rate = Rate::from_f64(self.bottleneck_mbps * 1e6);
        let delay = span_from_millis(self.bottleneck_delay_ms);
        let mut groups = Vec::new();
        let mut names = Vec::new();
        for text in self.groups.split('+').map(str::trim) {
            let (group, control) = parse_group(text, rate).map_err(|why| format!("row {}: {why}", self.row))?;
            names.push(format!("{} {control} {}", group.connections, (delay + group.delay) * 2));
            groups.push(group);
        }
        let share = |jain_index, mbps: f64| PublishedShare { jain_index, goodput_bits_per_second: mbps * 1e6 };
        Ok(FairnessCase {
            label: format!("row {}: {}, {rate}", self.row, names.join(" + ")),
            added_delay: Span::ZERO,
            rate,
            delay,
            limit: QueueLimit::Packets(self.buffer_packets),
            groups,
            queues: Vec::new(),
            published: Some(PublishedMix {
                fifo: share(self.jain_fifo, self.goodput_fifo_mbps),
                fq_codel: share(self.jain_fq_codel, self.goodput_fq_codel_mbps),
                cebinae: share(self.jain_cebinae, self.goodput_cebinae_mbps),
            }),
        })
    }
}

/// The group, and its congestion control as it stands there. Senders are limited to the bottleneck's rate: their leaf links
/// have it too.
fn parse_group(text: &str, rate: Rate) -> Result<(ConnectionGroup, &str), String> {
    let wrong = || format!("`{text}` is no group; write it like 2xNewReno@0.2");
    let (count, rest) = text.split_once('x').ok_or_else(wrong)?;
    let (control, leaf) = rest.split_once('@').ok_or_else(wrong)?;
    let leaf: f64 = leaf.parse().map_err(|_| wrong())?;
    let group = ConnectionGroup {
        connections: count.parse().map_err(|_| wrong())?,
        control: control_from_name(control)?,
        delay: span_from_millis(2.0 * leaf),
        source_rate: Some(rate),
        hops: Vec::new(),
    };
    Ok((group, control))
}

/// As ns-3 writes them: `NewReno`.
fn control_from_name(name: &str) -> Result<CongestionControl, String> {
    let same = |(word, _): &&(&str, CongestionControl)| word.replace('-', "").eq_ignore_ascii_case(name);
    let found = CongestionControl::ALL.iter().find(same).map(|(_, control)| *control);
    found.ok_or_else(|| format!("there is no congestion control `{name}`"))
}

fn span_from_millis(millis: f64) -> Span {
    Span::from_secs_f64(millis * 1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_sixteen_mixes_reads_as_published() {
        let cases = parse_mixes(include_str!("../../scenarios/fair-mix.csv")).unwrap();
        assert_eq!(cases.len(), 16);
        let first = &cases[0];
        assert_eq!((first.rate, first.limit), (Rate::from_mbit(100), QueueLimit::Packets(250)));
        // Finding 10 of the review by a new user: "row 0" says nothing.
        assert_eq!(first.label, "row 0: 2 NewReno 20.8 ms + 8 NewReno 28 ms, 100 Mbit/s");
        let groups: Vec<_> = first.groups.iter().map(|g| (g.connections, g.control)).collect();
        assert_eq!(groups, [(2, CongestionControl::NewReno), (8, CongestionControl::NewReno)]);
        // RTT = 2 · (bottleneck delay + 2 · leaf delay): 20.8 and 28 ms.
        let round_trips: Vec<_> = first.groups.iter().map(|g| ((first.delay + g.delay) * 2).as_secs_f64()).collect();
        assert!((round_trips[0] - 0.0208).abs() < 1e-9 && (round_trips[1] - 0.028).abs() < 1e-9, "{round_trips:?}");
        let indices: Vec<_> = cases.iter().map(|c| c.published.unwrap().cebinae.jain_index).collect();
        let mean = indices.iter().sum::<f64>() / 16.0;
        assert!((mean - 0.910).abs() < 0.001, "{mean}");
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        let text = include_str!("../../scenarios/fair-mix.csv");
        for (good, bad, said) in
            [("2xNewReno@0.2", "2 NewReno", "row 0"), ("8xNewReno@2", "8xTahoe@2", "no congestion")]
        {
            let error = parse_mixes(&text.replace(good, bad)).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}

//! What an experiment came to, as a document and as people read it.

mod cases;
mod csv;
mod full;
pub(crate) mod html;
pub(crate) mod plots;
pub(crate) mod tables;
pub(crate) mod terminal;

use crate::accuracy::full::Limits;
use crate::accuracy::row::Row;
use crate::accuracy::scenario::Scenario;
use crate::accuracy::summary::Summary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What an experiment came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The document's kind and version.
    #[schemars(extend("const" = Report::SCHEMA))]
    pub schema: String,
    /// The scenario's name.
    pub experiment: String,
    /// The scenario's question.
    pub title: String,
    /// When the first run began: UTC, RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The version of kumade that measured.
    pub version: String,
    /// What limited the path.
    pub bottleneck: BottleneckFacts,
    /// Whether cross traffic was computed in the link or sent as packets.
    #[schemars(extend("enum" = ["link", "packets"]))]
    pub cross_by: String,
    /// What the firewall did, in words; empty where everything passed.
    pub firewall: Vec<String>,
    /// What it is to reach.
    pub limits: Limits,
    /// One for each run, in the order of running.
    pub rows: Vec<Row>,
    /// What the rows come to.
    pub summary: Summary,
}

/// What limited the path, the same in both directions unless a rate down is given. Of a sweep, what its rates were derived
/// from: each row tells its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BottleneckFacts {
    /// Who shaped: the lab's own link, the kernel's HTB, or the link of a virtual path.
    #[schemars(extend("enum" = ["own", "htb", "virtual"]))]
    pub kind: String,
    /// Capacity in bits of IP packets.
    pub rate_bits_per_second: u64,
    /// Capacity towards the host that measures, where it is another one; else null.
    pub down_bits_per_second: Option<u64>,
    /// Propagation delay in one direction.
    pub delay_seconds: f64,
    /// Bytes that wait in front of it at most.
    pub queue_bytes: u64,
}

/// A report that could not be made or written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The system refused.
    #[error("cannot write {path}: {cause}; choose another directory with --out")]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A part of it could not be put together.
    #[error("cannot make {part} of the report: {reason}")]
    Make {
        /// Which part.
        part: &'static str,
        /// Why.
        reason: String,
    },
}

impl Report {
    /// Names the document's kind and version.
    pub const SCHEMA: &str = "kumade.lab/1";

    /// Sums up what `scenario` came to. `started` is UTC in RFC 3339.
    pub fn new(scenario: &Scenario, started: String, rows: Vec<Row>) -> Self {
        let bottleneck = &scenario.bottleneck;
        Report {
            schema: Report::SCHEMA.to_owned(),
            experiment: scenario.name.clone(),
            title: scenario.title.clone(),
            started,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            bottleneck: BottleneckFacts {
                kind: bottleneck.kind.word().to_owned(),
                rate_bits_per_second: bottleneck.rate.bits_per_second(),
                down_bits_per_second: bottleneck.down_rate.map(units::Rate::bits_per_second),
                delay_seconds: scenario.delay().as_secs_f64(),
                queue_bytes: bottleneck.queue,
            },
            cross_by: scenario.cross_by().word().to_owned(),
            firewall: scenario.firewall.iter().map(ToString::to_string).collect(),
            limits: scenario.limits,
            summary: Summary::of(&rows, scenario.paper.as_ref()),
            rows,
        }
    }

    /// Transport and method of the rows, each pair once, in the order of running.
    pub(crate) fn combinations(&self) -> Vec<(&str, String)> {
        let mut combinations = Vec::new();
        for row in &self.rows {
            let combination = (row.transport.as_str(), row.estimator());
            if !combinations.contains(&combination) {
                combinations.push(combination);
            }
        }
        combinations
    }

    fn content(&self) -> Content<'_> {
        let paper = self.summary.published.as_ref();
        Content {
            experiment: &self.experiment,
            title: &self.title,
            started: &self.started,
            version: &self.version,
            setting: tables::setting(self),
            layer: "Rates count bits of IP packets.",
            paper: paper.map(|paper| format!("{}, {}: {}", paper.system, paper.figure, paper.setting)),
            tables: tables::all(self),
            verdicts: tables::verdicts(self),
            notes: tables::notes(self),
        }
    }
}

impl Document for Report {
    fn to_json(&self) -> Result<String, ReportError> {
        serde_json::to_string_pretty(self).map_err(|e| make("the JSON document", &e))
    }

    fn to_csv(&self) -> Result<String, ReportError> {
        csv::rows(&self.rows).map_err(|e| make("the CSV file", &e))
    }

    fn to_text(&self) -> String {
        terminal::render(&self.content())
    }

    fn to_html(&self) -> Result<String, ReportError> {
        let plots = plots::all(self).map_err(|e| make("a plot", &e))?;
        html::render(&self.content(), &plots)
    }
}

/// What an experiment came to, in the forms in which people and programs read it.
pub trait Document {
    /// As one JSON document, which names its schema.
    ///
    /// # Errors
    /// None are known; serde's signature asks for it.
    fn to_json(&self) -> Result<String, ReportError>;

    /// The rows as CSV with a header line; an empty cell stands for what JSON calls null.
    ///
    /// # Errors
    /// None are known; the writer's signature asks for it.
    fn to_csv(&self) -> Result<String, ReportError>;

    /// As tables for a terminal.
    fn to_text(&self) -> String;

    /// As one HTML page that needs no other file.
    ///
    /// # Errors
    /// Where a plot could not be drawn.
    fn to_html(&self) -> Result<String, ReportError>;

    /// Writes `report.html`, `report.json` and `report.csv` into `directory`, which it makes; gives their paths.
    /// An earlier report in that directory is replaced.
    ///
    /// # Errors
    /// Names the file that could not be written.
    fn write(&self, directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
        std::fs::create_dir_all(directory).map_err(failed(directory))?;
        let files =
            [("report.html", self.to_html()?), ("report.json", self.to_json()?), ("report.csv", self.to_csv()?)];
        let mut paths = Vec::new();
        for (name, text) in files {
            let path = directory.join(name);
            let mut file = std::fs::File::create(&path).map_err(failed(&path))?;
            file.write_all(text.as_bytes()).map_err(failed(&path))?;
            paths.push(path);
        }
        Ok(paths)
    }
}

/// Makes `directory`, and sees that reports can be written into it: better known before an experiment than after it.
///
/// # Errors
/// Where they cannot.
pub fn prepare(directory: &Path) -> Result<(), ReportError> {
    std::fs::create_dir_all(directory).map_err(failed(directory))?;
    let probe = directory.join(format!(".kumade-{}", std::process::id()));
    std::fs::File::create(&probe).and_then(|_| std::fs::remove_file(&probe)).map_err(failed(directory))
}

/// What terminal and HTML both show of a report.
pub(crate) struct Content<'a> {
    pub(crate) experiment: &'a str,
    pub(crate) title: &'a str,
    pub(crate) started: &'a str,
    pub(crate) version: &'a str,
    /// The path and its traffic in a line.
    pub(crate) setting: String,
    /// What rates count.
    pub(crate) layer: &'static str,
    /// What was published, in a line.
    pub(crate) paper: Option<String>,
    pub(crate) tables: Vec<tables::Table>,
    /// What came out, in a sentence each.
    pub(crate) verdicts: Vec<String>,
    /// What the numbers can't say.
    pub(crate) notes: Vec<String>,
}

/// The present time as [`Report::started`] states it: UTC, RFC 3339, whole seconds.
pub fn now_utc() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> ReportError {
    let path = path.to_owned();
    move |cause| ReportError::Write { path, cause }
}

pub(crate) fn make(part: &'static str, reason: &dyn std::fmt::Display) -> ReportError {
    ReportError::Make { part, reason: reason.to_string() }
}

/// Reports as tests make them.
#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::accuracy::row::TimelinePacket;
    use crate::accuracy::row::samples::{failed, measured, whole as whole_row};
    use crate::accuracy::scenario::{Method, Transport};
    use measure::report::ShaperReport;
    use train::Estimate;
    use units::Rate;

    const STARTED: &str = "2026-11-20T12:00:00Z";

    /// Two levels of cross traffic, three runs each, by two methods over two transports.
    pub(crate) fn accuracy() -> Report {
        let scenario = crate::load("rake-accuracy").unwrap().measurement().unwrap();
        let mut rows = Vec::new();
        for (run, error) in [(1, 0.1), (2, -0.2), (3, 0.3)] {
            for cross in [0, 60] {
                for transport in [Transport::Rake, Transport::Udp] {
                    rows.push(measured(transport, Method::Primed, cross, run, error));
                    rows.push(measured(transport, Method::LinearScan, cross, run, 10.0 + error));
                }
            }
        }
        rows[0].stalled_repeats = 2;
        Report::new(&scenario, STARTED.into(), rows)
    }

    /// UDP fails, rake measures.
    pub(crate) fn firewall() -> Report {
        let scenario = crate::load("rake-firewall").unwrap().measurement().unwrap();
        let rows = vec![
            failed(Transport::Udp, Method::Primed, 30, 1, "UDP is rejected on the way to 10.0.1.2"),
            measured(Transport::Rake, Method::Primed, 30, 1, -0.15),
        ];
        Report::new(&scenario, STARTED.into(), rows)
    }

    /// Everything measured: capacity a percent off, three percent off, refused; beside a token bucket, which was seen.
    pub(crate) fn whole() -> Report {
        let scenario = crate::load("tester-capacity").unwrap().measurement().unwrap();
        let mut rows = vec![whole_row(1, Some(1.01)), whole_row(2, Some(0.97)), whole_row(3, None)];
        let mut shaped = whole_row(1, Some(1.0));
        let interval = |value: u64| Estimate { value, low: value * 9 / 10, high: value * 11 / 10, confidence: 0.95 };
        (shaped.burst_bytes, shaped.peak_bits_per_second) = (Some(10_000), Some(1_000_000_000));
        shaped.shaper = Some(ShaperReport {
            link_bits_per_second: Some(interval(990_000_000).map(Rate::from_bits_per_second)),
            rate_bits_per_second: interval(101_000_000).map(Rate::from_bits_per_second),
            burst_bytes: interval(13_000),
        });
        rows.push(shaped);
        Report::new(&scenario, STARTED.into(), rows)
    }

    /// A train that a congestion window of ten segments tore apart, and one that it did not.
    pub(crate) fn cwnd() -> Report {
        let scenario = crate::load("rake-cwnd").unwrap().measurement().unwrap();
        let mut torn = failed(Transport::Single, Method::LinearScan, 50, 1, "every train was disturbed");
        let mut whole = measured(Transport::Rake, Method::LinearScan, 50, 1, 9.0);
        for i in 0..120 {
            let planned_seconds = f64::from(i) * 1e-4;
            let late = if i < 10 { 0.0 } else { 0.08 };
            let packet = |late: f64, received| TimelinePacket {
                size_bytes: 32 + 12 * i,
                planned_seconds,
                sent_seconds: Some(planned_seconds + late),
                received_seconds: received,
            };
            torn.timeline.push(packet(late, (i < 10).then_some(planned_seconds + 0.01)));
            whole.timeline.push(packet(0.0, Some(planned_seconds + 0.01)));
        }
        Report::new(&scenario, STARTED.into(), vec![torn, whole])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_back_as_it_was() {
        for report in [samples::accuracy(), samples::firewall(), samples::cwnd(), samples::whole()] {
            let json = report.to_json().unwrap();
            assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        }
    }

    /// Published for those who read the documents; generated from the types above and their comments.
    #[test]
    fn the_published_schema_is_that_of_the_documents() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/kumade.lab.1.json");
        let schema = serde_json::to_value(schemars::schema_for!(Report)).unwrap();
        if std::env::var_os("WRITE_SCHEMAS").is_some() {
            std::fs::write(path, format!("{schema:#}\n")).unwrap();
        }
        let published: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(published, schema, "write it anew: WRITE_SCHEMAS=1 cargo test -p lab schema");
        let validator = jsonschema::validator_for(&published).unwrap();
        for report in [samples::accuracy(), samples::firewall(), samples::cwnd(), samples::whole()] {
            let document = serde_json::to_value(&report).unwrap();
            assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).collect::<Vec<_>>());
            let mut other = document.clone();
            other["schema"] = "kumade.lab/2".into();
            assert!(!validator.is_valid(&other));
            let mut incomplete = document;
            incomplete.as_object_mut().unwrap().remove("rows");
            assert!(!validator.is_valid(&incomplete));
        }
    }

    #[test]
    fn others_find_the_errors_where_they_were_promised() {
        let document: serde_json::Value = serde_json::from_str(&samples::accuracy().to_json().unwrap()).unwrap();
        assert_eq!(document["schema"], "kumade.lab/1");
        let error = &document["summary"]["mean_absolute_error_bits_per_second"]["rake"]["primed"];
        assert!((error.as_f64().unwrap() - 200_000.0).abs() < 1.0, "{error}");
        assert_eq!(document["summary"]["published"]["mean_absolute_error_bits_per_second"]["udp"], 18.2e6);
    }

    #[test]
    fn all_three_files_are_written_and_replaced() {
        let directory = std::env::temp_dir().join(format!("kumade-report-{}", std::process::id()));
        prepare(&directory).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        for _ in 0..2 {
            let paths = samples::firewall().write(&directory).unwrap();
            assert_eq!(paths.len(), 3);
            assert!(paths.iter().all(|path| path.metadata().unwrap().len() > 100));
        }
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(prepare(Path::new("/proc/nowhere")), Err(ReportError::Write { .. })));
        let error = samples::firewall().write(Path::new("/proc/nowhere")).unwrap_err().to_string();
        assert!(error.contains("/proc/nowhere") && error.contains("--out"), "{error}");
    }
}

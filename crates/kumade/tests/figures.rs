//! Figures, outputs and pictures of README and docs are those of `docs/reports` and `docs/recorded`, where `docs/figures` and
//! `docs/record` leave what the program has measured and printed. Set `UPDATE_FIGURES` to write them into the pages.

use anstyle_svg::Term;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A part of a page that this test makes: the page, the part's name, and what makes it.
type Part = (&'static str, &'static str, fn() -> String);
/// A row of a table: its label, and what makes the cell of a discipline.
type DisciplineRow<'r> = (&'static str, &'r dyn Fn(&str) -> String);

/// A part stands between `<!-- NAME -->` and `<!-- end -->`.
const PARTS: &[Part] = &[
    ("README.md", "figures", summary_table),
    ("README.md", "link show", || recorded_output("link", 0, 3)),
    ("README.md", "gateway status", || recorded_output("gateway", 2, 4)),
    ("README.md", "tunnel status", || recorded_output("tunnel", 0, 3)),
    ("docs/accuracy.md", "rake-accuracy", accuracy_table),
    ("docs/accuracy.md", "method-comparison", method_table),
    ("docs/accuracy.md", "path-atlas", atlas_table),
    ("docs/fairness.md", "fair-wired", || index_table("fair-wired")),
    ("docs/fairness.md", "fair-mix", mix_table),
    ("docs/fairness.md", "fair-latency", latency_table),
    ("docs/fairness.md", "fair-attack", attack_table),
    ("docs/fairness.md", "fair-l4s", l4s_table),
];
/// The kinds of paths of the atlas, as users of networks call them.
const PATH_KINDS: &[(&str, &str)] = &[
    ("fifo", "one queue"),
    ("jittered-cross", "one queue, steady traffic"),
    ("packet-mix", "packets of many sizes"),
    ("mtu", "MTU of 576 to 9000 bytes"),
    ("long-delay", "round trips of 0.2 to 1.2 s"),
    ("slow-link", "64 kbit/s to 2 Mbit/s"),
    ("fast-link", "1 to 100 Gbit/s"),
    ("codel", "CoDel"),
    ("pie", "PIE"),
    ("red", "RED"),
    ("short-queue", "queue of 2 to 10 packets"),
    ("small-bucket", "shaper of two to four packets, as HTB"),
    ("shaper", "shaper, bursts of 20 kB to 1 MB"),
    ("policer", "policer, bursts of 10 kB to 1 MB"),
    ("fq-codel", "FQ-CoDel: a queue for each flow"),
    ("host-fair", "the same, and hosts take turns, as CAKE"),
    ("fair-share", "fair share"),
    ("load-balanced", "parallel links, one for each flow"),
    ("tight-link", "several links, the tight one not the narrow one"),
    ("loss", "0.1 to 5 % of loss"),
    ("reordering", "packets that come later than others"),
    ("duplication", "packets that come twice"),
    ("jitter", "delays that vary by up to 10 ms"),
    ("batching", "receivers that collect packets"),
    ("wifi", "Wi-Fi"),
    ("cellular", "cellular"),
    ("proxy", "a proxy that ends TCP connections"),
    ("bursty-cross", "traffic in bursts of 6 to 64 kB"),
    ("elastic", "beside TCP connections"),
    ("combined", "two of these"),
];
/// A screen of reading, and where the first measurement must stand.
const MAX_README_WORDS: usize = 900;
const LAST_LINE_OF_FIRST_MEASUREMENT: usize = 25;
/// Grounds and letters of the two pictures of a terminal, as GitHub's own pages have them.
const TERMINALS: [(&str, [u8; 3], [u8; 3]); 2] =
    [("light", [0xf6, 0xf8, 0xfa], [0x1f, 0x23, 0x28]), ("dark", [0x0d, 0x11, 0x17], [0xe6, 0xed, 0xf3])];

#[test]
fn figures_and_outputs_are_those_that_were_recorded() {
    for page in PARTS.iter().map(|(page, ..)| page).collect::<BTreeSet<_>>() {
        let path = root().join(page);
        let before = fs::read_to_string(&path).unwrap();
        let mut text = before.clone();
        for (_, name, part) in PARTS.iter().filter(|(of, ..)| of == page) {
            let begin = format!("<!-- {name} -->\n");
            let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page} has no {begin}"));
            let (_, tail) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{page}: {name} has no end"));
            text = format!("{head}{begin}{}<!-- end -->{tail}", part());
        }
        hold(&path, &before, &text);
    }
}

#[test]
fn the_picture_is_of_what_was_recorded() {
    let recorded = fs::read_to_string(root().join("docs/recorded/measure.txt")).unwrap();
    for (name, ground, letters) in TERMINALS {
        let [ground, letters] = [ground, letters].map(|[r, g, b]| anstyle::RgbColor(r, g, b).into());
        let picture = Term::new().bg_color(ground).fg_color(letters).min_width_px(560).render_svg(&recorded);
        let path = root().join(format!("docs/recorded/measure-{name}.svg"));
        hold(&path, &fs::read_to_string(&path).unwrap_or_default(), &picture);
    }
}

#[test]
fn readme_is_short_and_soon_measures() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let words = text.split_whitespace().count();
    assert!(words <= MAX_README_WORDS, "{words} words");
    let line = text.lines().position(|line| line.contains("kumade measure")).map(|index| index + 1);
    assert!(line.is_some_and(|line| line <= LAST_LINE_OF_FIRST_MEASUREMENT), "{line:?}");
}

#[test]
fn pages_name_no_file_that_is_missing() {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).chain(docs);
    for page in pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let pictures =
            text.split("src=\"").chain(text.split("srcset=\"")).skip(1).filter_map(|rest| rest.split('"').next());
        for target in targets.chain(pictures.filter(|target| target.ends_with(".svg"))) {
            // These are made with the site.
            let is_elsewhere = target.is_empty() || target.contains("://") || target.starts_with("reference/");
            let is_made = ["reporting.md", "architecture.md"].contains(&target);
            let is_there = is_made || page.parent().unwrap().join(target).exists();
            assert!(is_elsewhere || is_there, "{}: there is no {target}", page.display());
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn hold(path: &Path, before: &str, wanted: &str) {
    if std::env::var_os("UPDATE_FIGURES").is_some() {
        fs::write(path, wanted).unwrap();
    } else {
        assert!(
            before == wanted,
            "{} differs from what was recorded; set UPDATE_FIGURES to write it anew",
            path.display()
        );
    }
}

/// A command line, and some lines of what it printed.
fn recorded_output(name: &str, skipped: usize, shown: usize) -> String {
    let text = fs::read_to_string(root().join(format!("docs/recorded/{name}.txt"))).unwrap();
    let (command, printed) = text.split_once('\n').unwrap();
    let lines = printed.lines().skip(skipped).take(shown).map(|line| format!("{}\n", line.trim_end()));
    format!("```console\n{command}\n{}…\n```\n", lines.collect::<String>())
}

/// The rows of an experiment's report.
struct Rows(Vec<BTreeMap<String, String>>);

impl Rows {
    fn read(experiment: &str) -> Self {
        let mut reader = csv::Reader::from_path(root().join(format!("docs/reports/{experiment}.csv"))).unwrap();
        Rows(reader.deserialize().map(Result::unwrap).collect())
    }

    /// Those whose columns have these values.
    fn with(&self, wanted: &[(&str, &str)]) -> Self {
        let fits = |row: &&BTreeMap<String, String>| wanted.iter().all(|(column, value)| row[*column] == *value);
        let rows: Vec<_> = self.0.iter().filter(fits).cloned().collect();
        assert!(!rows.is_empty(), "no row has {wanted:?}");
        Rows(rows)
    }

    /// Different texts of a column, in the order of the rows.
    fn values(&self, column: &str) -> Vec<String> {
        let mut seen = BTreeSet::new();
        self.0.iter().map(|row| row[column].clone()).filter(|value| seen.insert(value.clone())).collect()
    }

    /// The numbers of a column; empty cells are left out.
    fn numbers(&self, column: &str) -> Vec<f64> {
        self.0.iter().filter(|row| !row[column].is_empty()).map(|row| row[column].parse().unwrap()).collect()
    }

    fn mean(&self, column: &str) -> f64 {
        mean(&self.numbers(column))
    }

    fn least(&self, column: &str) -> f64 {
        self.numbers(column).into_iter().fold(f64::INFINITY, f64::min)
    }

    fn greatest(&self, column: &str) -> f64 {
        self.numbers(column).into_iter().fold(f64::NEG_INFINITY, f64::max)
    }

    fn mean_error(&self) -> f64 {
        mean(&self.numbers("error_bits_per_second").into_iter().map(f64::abs).collect::<Vec<_>>())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<_> = header.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = format!("|{}\n", " --- |".repeat(header.len()));
    line(&header) + &rule + &rows.into_iter().map(|row| line(&row)).collect::<String>()
}

/// The error of the mean, the bytes and the time that one direction took.
fn accuracy_cells(rows: &Rows, transport: &str, method: &str) -> [f64; 3] {
    let rows = rows.with(&[("transport", transport), ("method", method)]);
    [rows.mean_error() / 1e6, rows.mean("bytes_sent") / 1e6, rows.mean("duration_seconds")]
}

fn accuracy_table() -> String {
    let rows = Rows::read("rake-accuracy");
    let line = |(transport, label, published): (&str, &str, &str)| {
        let [rule, ..] = accuracy_cells(&rows, transport, "linear-scan");
        let [error, megabytes, seconds] = accuracy_cells(&rows, transport, "primed");
        let cells = [format!("{rule:.1}"), format!("**{error:.2}**"), format!("{megabytes:.2} MB, {seconds:.2} s")];
        [vec![label.to_owned(), published.to_owned()], cells.to_vec()].concat()
    };
    let kinds = [("rake", "over TCP (`rake`)", "15.6"), ("udp", "over UDP (`udp`)", "18.2")];
    table(&["", "published", "the published rule here", "kumade", "cost of a direction"], kinds.map(line))
}

fn method_table() -> String {
    let rows = Rows::read("method-comparison");
    let kinds = [("constant", "constant"), ("jittered", "constant ±5 %"), ("poisson", "Poisson"), ("on-off", "on/off")];
    let relative_error = |rows: &Rows| {
        let rows = rows.0.iter().filter(|row| !row["error_bits_per_second"].is_empty());
        let ratio = |row: &BTreeMap<String, String>| {
            let number = |column: &str| row[column].parse::<f64>().unwrap();
            number("error_bits_per_second").abs() / number("bottleneck_bits_per_second")
        };
        format!("{:.1} %", 100.0 * mean(&rows.map(ratio).collect::<Vec<_>>()))
    };
    let line = |method: String| {
        let rows = rows.with(&[("method", &method)]);
        let errors = kinds.map(|(kind, _)| relative_error(&rows.with(&[("cross_kind", kind)])));
        let estimates = rows.numbers("error_bits_per_second").len();
        let all = [relative_error(&rows), format!("{estimates} of {}", rows.0.len())];
        let seconds = format!("{:.1}", rows.mean("duration_seconds"));
        // The primed method is kumade's own default; the others are named as in `--method`.
        let name = if method == "primed" { "**kumade** (`primed`)".to_owned() } else { format!("`{method}`") };
        [vec![name], errors.to_vec(), all.to_vec(), vec![seconds]].concat()
    };
    let header = ["method", kinds[0].1, kinds[1].1, kinds[2].1, kinds[3].1, "all", "estimates", "seconds"];
    table(&header, rows.values("method").into_iter().map(line))
}

/// Of each kind of path, over UDP and over TCP: values, intervals that hold, median widths, statements that are wrong with confidence.
fn atlas_table() -> String {
    let text = fs::read_to_string(root().join("docs/reports/path-atlas.txt")).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().all(|line| PATH_KINDS.iter().any(|(kind, _)| *kind == line[0])), "{lines:?}");
    let rows = PATH_KINDS.iter().map(|&(kind, name)| {
        // One that passes TCP alone has no line for UDP.
        let cell = |column: usize, unit: &str| {
            let of = |transport| lines.iter().find(|line| line[0] == kind && line[1] == transport);
            ["udp", "rake"]
                .map(|transport| of(transport).map_or_else(|| "–".into(), |line| format!("{}{unit}", line[column])))
                .join(", ")
        };
        vec![format!("{name} (`{kind}`)"), cell(3, ""), cell(4, " %"), cell(6, " %"), cell(7, "")]
    });
    let sum = |column: usize| lines.iter().map(|line| line[column].parse::<u32>().unwrap()).sum::<u32>();
    let header =
        ["kind of path", "values of 1000, UDP, TCP", "intervals that hold", "median width", "wrong with confidence"];
    format!("Of {} measurements, {} are wrong with confidence.\n\n{}", sum(2), sum(7), table(&header, rows))
}

/// Jain's index by delay: the mean of the runs, and the least.
fn index_table(experiment: &str) -> String {
    let rows = Rows::read(experiment);
    let disciplines = rows.values("discipline");
    let header: Vec<_> = std::iter::once("added delay").chain(disciplines.iter().map(String::as_str)).collect();
    let line = |case: String| {
        let cell = |discipline: &String| {
            let rows = rows.with(&[("case", &case), ("discipline", discipline)]);
            format!("{:.3} ({:.3})", rows.mean("jain_index"), rows.least("jain_index"))
        };
        std::iter::once(case.clone()).chain(disciplines.iter().map(cell)).collect()
    };
    table(&header, rows.values("case").into_iter().map(line))
}

/// For each rate, round trip and discipline: Jain's index; how long the packets of each sender wait.
fn l4s_table() -> String {
    let rows = Rows::read("fair-l4s");
    let disciplines = rows.values("discipline");
    let header: Vec<_> = std::iter::once("rate, round trip").chain(disciplines.iter().map(String::as_str)).collect();
    let millis = |seconds: f64| format!("{:.2}", seconds * 1e3);
    let line = |case: String| {
        let cell = |discipline: &String| {
            let rows = rows.with(&[("case", &case), ("discipline", discipline)]);
            let (cubic, prague) = (rows.with(&[("group", "cubic")]), rows.with(&[("group", "prague")]));
            format!(
                "{:.3} ({:.3}); {} / {}; {} / {} ({})",
                prague.mean("jain_index"),
                prague.least("jain_index"),
                millis(cubic.mean("group_queueing_mean_seconds")),
                millis(cubic.mean("group_queueing_p99_seconds")),
                millis(prague.mean("group_queueing_mean_seconds")),
                millis(prague.mean("group_queueing_p99_seconds")),
                millis(prague.greatest("group_queueing_p99_seconds")),
            )
        };
        std::iter::once(case.clone()).chain(disciplines.iter().map(cell)).collect()
    };
    table(&header, rows.values("case").into_iter().map(line))
}

/// The mean of the index over the mixes, and the least of single runs; how much of the link was used.
fn mix_cells(rows: &Rows, discipline: &str) -> [f64; 2] {
    let rows = rows.with(&[("discipline", discipline)]);
    let mixes = rows.values("case").into_iter().map(|case| rows.with(&[("case", &case)]).mean("jain_index"));
    [mean(&mixes.collect::<Vec<_>>()), rows.least("jain_index")]
}

fn mix_table() -> String {
    let rows = Rows::read("fair-mix");
    let published = |discipline: &str| match discipline {
        "tail-drop" => "0.538 (0.039)",
        "fq-codel" => "0.901 (0.314)",
        _ => "–",
    };
    let line = |discipline: String| {
        let [mean, least] = mix_cells(&rows, &discipline);
        vec![format!("`{discipline}`"), format!("{mean:.3} ({least:.3})"), published(&discipline).to_owned()]
    };
    table(&["", "sixteen mixes, mean (least run)", "published"], rows.values("discipline").into_iter().map(line))
}

/// Rows of what, with a cell for each discipline.
fn discipline_table(lines: &[DisciplineRow<'_>]) -> String {
    const DISCIPLINES: [&str; 3] = ["tail-drop", "fq-codel", "fair-share"];
    let line = |(what, cell): &DisciplineRow<'_>| {
        std::iter::once((*what).to_owned()).chain(DISCIPLINES.iter().map(|discipline| cell(discipline))).collect()
    };
    table(&["", "tail drop", "FQ-CoDel", "fair share"], lines.iter().map(line))
}

fn latency_table() -> String {
    let rows = Rows::read("fair-latency");
    let of = |case: &str, discipline: &str| rows.with(&[("case", case), ("discipline", discipline)]);
    let milliseconds = |case, discipline: &str, columns: [&str; 2]| {
        let cell = |column| significant(1e3 * of(case, discipline).mean(column));
        columns.map(cell).join(" / ")
    };
    let probes = ["probe_added_median_seconds", "probe_added_p99_seconds"];
    let queue = ["queueing_median_seconds", "queueing_p99_seconds"];
    let percent = |case, discipline: &str, column| significant(100.0 * of(case, discipline).mean(column)) + " %";
    discipline_table(&[
        ("sparse packets beside 4 CUBIC: added p50 / p99, ms", &|d| milliseconds("CUBIC ×4", d, probes)),
        ("10 kB transfers beside 4 CUBIC: mean, ms", &|d| {
            significant(1e3 * of("CUBIC ×4", d).mean("short_flow_mean_seconds"))
        }),
        ("queue of 4 CUBIC: p50 / p99, ms", &|d| milliseconds("CUBIC ×4", d, queue)),
        ("the rate falls to a tenth: queue p50 / p99, ms", &|d| {
            milliseconds("CUBIC ×4, a tenth of the rate", d, queue)
        }),
        ("the same: drops", &|d| percent("CUBIC ×4, a tenth of the rate", d, "drop_ratio")),
        ("2 BBR: drops", &|d| percent("BBR ×2", d, "drop_ratio")),
        ("CUBIC and Vegas: Jain's index, mean (least run)", &|d| {
            let rows = of("CUBIC + Vegas", d);
            format!("{:.3} ({:.3})", rows.mean("jain_index"), rows.least("jain_index"))
        }),
    ])
}

fn attack_table() -> String {
    let rows = Rows::read("fair-attack");
    let with = |d: &str, fits: &dyn Fn(&str) -> bool| {
        let rows = rows.with(&[("discipline", d)]);
        Rows(rows.0.into_iter().filter(|row| fits(&row["case"])).collect())
    };
    let share =
        |rows: &Rows| format!("{:.2} ({:.2})", rows.mean("attack_share_ratio"), rows.greatest("attack_share_ratio"));
    let case = |d: &str, case: &str| with(d, &|name| name == case);
    discipline_table(&[
        ("pulses, 7 ms at 1 Gbit/s every 74 ms: × an equal share", &|d| {
            share(&case(d, "pulses, 7/66.7 ms at 1 Gbit/s"))
        }),
        ("random on and off periods, 50 patterns", &|d| share(&case(d, "random on and off periods"))),
        ("50 Mbit/s of 100-byte packets", &|d| share(&case(d, "constant, 50 Mbit/s of 100-byte packets"))),
        ("eight patterns that a search found", &|d| share(&with(d, &|name| name.starts_with("found")))),
        ("pulses below a share: what the TCP connections get of the rest (least run)", &|d| {
            let rows = with(d, &|name| name.starts_with("pulses below"));
            let percent = |ratio: f64| 100.0 * ratio;
            format!(
                "{:.0} % ({:.0} %)",
                percent(rows.mean("bulk_share_ratio")),
                percent(rows.least("bulk_share_ratio"))
            )
        }),
    ])
}

/// Three significant digits, as a person writes them.
fn significant(value: f64) -> String {
    let decimals = if value == 0.0 { 0 } else { (2 - value.abs().log10().floor() as i32).clamp(0, 2) as usize };
    format!("{value:.decimals$}")
}

/// What README shows of all: beside what was published, or the same without kumade.
fn summary_table() -> String {
    let accuracy = Rows::read("rake-accuracy");
    let error = |transport| format!("**{:.2} Mbit/s**", accuracy_cells(&accuracy, transport, "primed")[0]);
    let rule = |transport| {
        let [error, ..] = accuracy_cells(&accuracy, transport, "linear-scan");
        format!("{error:.1} Mbit/s (the published rule)")
    };
    let [mean, least] = mix_cells(&Rows::read("fair-mix"), "fair-share");
    let tunnels = Rows::read("tunnel-carriers");
    let tunnel = |contender| {
        let rows = tunnels.with(&[("case", "100/10 ms, 1 % loss"), ("contender", contender)]);
        format!("{} Mbit/s", significant(rows.mean("goodput_bits_per_second") / 1e6))
    };
    let paths = Rows::read("multipath-unequal");
    let path = |contender| {
        let rows = paths.with(&[("case", "100/10 + 100/35 ms"), ("contender", contender)]);
        format!("{} Mbit/s", significant(rows.mean("goodput_bits_per_second") / 1e6))
    };
    let line = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
    table(
        &["in the lab (virtual time)", "without kumade", "kumade"],
        [
            line(["error of the available bandwidth over TCP, 100 Mbit/s", &rule("rake"), &error("rake")]),
            line(["the same over UDP", &rule("udp"), &error("udp")]),
            line([
                "16 mixes of TCP: Jain's index, mean (worst run)",
                "0.910 (0.702) (Cebinae)",
                &format!("**{mean:.3} ({least:.3})**"),
            ]),
            line([
                "one TCP connection, two uplinks of 100 Mbit/s",
                &path("single"),
                &format!("**{}**", path("bonded")),
            ]),
            line([
                "one TCP connection in a tunnel over TCP, 1 % loss",
                &tunnel("tunnel-tcp"),
                &format!("**{}**", tunnel("tunnel-rake")),
            ]),
        ],
    )
}

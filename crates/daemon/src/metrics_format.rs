//! The two formats that metrics are fetched in, and which one a client is given.

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' own, which whoever says nothing is given, as by Prometheus' libraries.
    PrometheusText,
}

const OPENMETRICS_TYPE: &str = "application/openmetrics-text";
const OPENMETRICS_VERSION: &str = "1.0.0";
/// From the most to the least specific (RFC 9110, 12.5.1).
const TEXT_RANGES: [&str; 3] = ["text/plain", "text/*", "*/*"];

/// A media range of `Accept`.
struct MediaRange<'a> {
    kind: &'a str,
    version: Option<&'a str>,
    quality: f32,
}

impl MetricsFormat {
    /// That which a client prefers, by the values of its headers `Accept`: OpenMetrics if it names that.
    pub(crate) fn negotiate<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let ranges: Vec<_> = accept.into_iter().flat_map(|value| value.split(',')).map(MediaRange::parse).collect();
        let has_version = |range: &&MediaRange| range.version.is_none_or(|version| version == OPENMETRICS_VERSION);
        let openmetrics = ranges.iter().filter(|range| range.kind.eq_ignore_ascii_case(OPENMETRICS_TYPE));
        let openmetrics = openmetrics.filter(has_version).map(|range| range.quality).fold(0.0, f32::max);
        let text_quality = |kind: &&str| {
            let found = ranges.iter().filter(|range| range.kind.eq_ignore_ascii_case(kind));
            found.map(|range| range.quality).reduce(f32::max)
        };
        let text = TEXT_RANGES.iter().find_map(text_quality).unwrap_or(0.0);
        if openmetrics > 0.0 && openmetrics >= text { Self::OpenMetrics } else { Self::PrometheusText }
    }

    /// As HTTP has it.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::PrometheusText => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// OpenMetrics text in this format.
    pub(crate) fn convert(self, openmetrics: String) -> String {
        match self {
            Self::OpenMetrics => openmetrics,
            Self::PrometheusText => to_prometheus_text(&openmetrics),
        }
    }
}

impl<'a> MediaRange<'a> {
    /// What cannot be read of it is as if it were not there.
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut range = MediaRange { kind: parts.next().unwrap_or_default(), version: None, quality: 1.0 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "version" => range.version = Some(value.trim().trim_matches('"')),
                "q" => range.quality = value.trim().parse().unwrap_or(0.0),
                _ => {}
            }
        }
        range
    }
}

/// What differs: here, a counter is called as its samples are, a help text has plain quotes, there is no end, and there are no units.
fn to_prometheus_text(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    // A family's descriptions are together, and in no order: the type may stand behind the help text.
    let mut lines = openmetrics.lines().peekable();
    while lines.peek().is_some() {
        let mut described = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with('#')) {
            described.push(line);
        }
        let descriptions = described.iter().filter_map(|line| Description::parse(line));
        let counters: Vec<_> = descriptions
            .clone()
            .filter(|line| line.keyword == "TYPE" && line.text == "counter")
            .map(|line| line.name)
            .collect();
        for Description { keyword, name, text } in descriptions {
            let suffix = if counters.contains(&name) { "_total" } else { "" };
            let text = match keyword {
                "HELP" => text.replace("\\\"", "\""),
                "TYPE" if text == "unknown" => "untyped".to_owned(),
                "TYPE" => text.to_owned(),
                _ => continue,
            };
            out.push_str(&format!("# {keyword} {name}{suffix} {text}\n"));
        }
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A line such as `# TYPE name counter`.
struct Description<'a> {
    keyword: &'a str,
    name: &'a str,
    text: &'a str,
}

impl<'a> Description<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.strip_prefix("# ")?.splitn(3, ' ');
        Some(Description { keyword: words.next()?, name: words.next()?, text: words.next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::MetricsFormat::{OpenMetrics, PrometheusText};
    use super::*;

    #[test]
    fn a_client_is_given_what_it_prefers() {
        // As Prometheus 2.55 and 3.0 ask.
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (&[][..], PrometheusText),
            (&["*/*"], PrometheusText),
            (&["text/html", "text/plain"], PrometheusText),
            (&["application/openmetrics-text"], OpenMetrics),
            (&["Application/OpenMetrics-Text; Version=\"1.0.0\""], OpenMetrics),
            (&["application/openmetrics-text; version=0.0.1"], PrometheusText),
            (&["application/openmetrics-text; q=0"], PrometheusText),
            (&["application/openmetrics-text; q=high"], PrometheusText),
            (&["application/openmetrics-text;q=0.5, text/plain;q=0.4, */*"], OpenMetrics),
            (&["text/plain", "application/openmetrics-text;q=0.9"], PrometheusText),
            (&[prometheus], OpenMetrics),
            (&[";=,;q,="], PrometheusText),
        ] {
            assert_eq!(MetricsFormat::negotiate(accept.iter().copied()), format, "{accept:?}");
        }
    }

    #[test]
    fn the_text_format_names_counters_as_their_samples() {
        let openmetrics = "# HELP sent Packets \\\"sent\\\".\n# TYPE sent counter\nsent_total{a=\"# x \\\"\"} 1\n\
            # TYPE sent_seconds gauge\n# UNIT sent_seconds seconds\n# HELP sent_seconds Time.\nsent_seconds 2\n\
            # HELP odd Odd.\n# TYPE odd unknown\nodd 3\n# EOF\n";
        let text = "# HELP sent_total Packets \"sent\".\n# TYPE sent_total counter\nsent_total{a=\"# x \\\"\"} 1\n\
            # TYPE sent_seconds gauge\n# HELP sent_seconds Time.\nsent_seconds 2\n\
            # HELP odd Odd.\n# TYPE odd untyped\nodd 3\n";
        assert_eq!(PrometheusText.convert(openmetrics.to_owned()), text);
        assert_eq!(OpenMetrics.convert(openmetrics.to_owned()), openmetrics);
    }
}

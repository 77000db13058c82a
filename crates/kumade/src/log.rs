//! Lines of the log: with time and level on standard error, with a priority for the journal.

use crate::output::{UnfailingStderr, note};
use std::env;
use std::fmt::{self, Write};
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Writes messages to standard error: those of KUMADE_LOG (`debug`, or `kumade_client=debug,info`), otherwise from this level on.
pub(crate) fn init_logging(default: LevelFilter) {
    let wanted = env::var("KUMADE_LOG").ok().filter(|wanted| !wanted.is_empty());
    let filter =
        wanted.as_deref().map_or(Ok(Targets::new().with_default(default)), str::parse).unwrap_or_else(|error| {
            note!("kumade: can't read KUMADE_LOG: {error}: try debug, or kumade_client=debug,info");
            Targets::new().with_default(default)
        });
    let format =
        if is_journal(env::var("JOURNAL_STREAM").ok().as_deref()) { LogFormat::Journal } else { LogFormat::Plain };
    let messages = tracing_subscriber::fmt::layer().with_writer(|| UnfailingStderr).event_format(format);
    tracing_subscriber::registry().with(filter).with(messages).init();
}

/// Whether standard error leads to the journal: it is the stream with this device and inode number (systemd.exec(5)), such as
/// `9:1234`. A program's output may have been redirected since systemd set the variable.
#[cfg(target_os = "linux")]
fn is_journal(stream: Option<&str>) -> bool {
    let named = stream.and_then(|stream| stream.split_once(':'));
    let named = named.and_then(|(device, inode)| Some((device.parse::<u64>().ok()?, inode.parse::<u64>().ok()?)));
    let own = nix::sys::stat::fstat(std::io::stderr().as_fd()).ok();
    named.zip(own).is_some_and(|(named, own)| named == (own.st_dev, own.st_ino))
}

#[cfg(not(target_os = "linux"))]
fn is_journal(_stream: Option<&str>) -> bool {
    false
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogFormat {
    /// With time and level.
    Plain,
    /// With a priority before it (sd-daemon(3)); the journal has the time.
    Journal,
}

impl LogFormat {
    fn write_line(self, line: &mut dyn Write, level: Level, text: &str) -> fmt::Result {
        // A line break would begin a line without time and level.
        let text = kumade_lab::printable(text).replace('\n', " ");
        match self {
            LogFormat::Plain => {
                let mut time = String::new();
                SystemTime.format_time(&mut Writer::new(&mut time))?;
                writeln!(line, "{time} {level:>5} {text}")
            }
            LogFormat::Journal => writeln!(line, "<{}>{text}", priority(level)),
        }
    }
}

/// As syslog(3) numbers them.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

impl<S, N> FormatEvent<S, N> for LogFormat
where
    S: Subscriber + for<'l> LookupSpan<'l>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut text = String::new();
        context.field_format().format_fields(Writer::new(&mut text), event)?;
        self.write_line(&mut line, *event.metadata().level(), &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat, level: Level, text: &str) -> String {
        let mut line = String::new();
        format.write_line(&mut line, level, text).unwrap();
        line
    }

    #[test]
    fn a_line_has_time_and_level_or_the_journals_priority_and_is_one() {
        assert_eq!(line(LogFormat::Journal, Level::WARN, "one: lost\n<0>\u{1b}[2J"), "<4>one: lost <0>\u{fffd}[2J\n");
        assert_eq!(line(LogFormat::Journal, Level::INFO, "one: connected"), "<6>one: connected\n");
        let plain = line(LogFormat::Plain, Level::INFO, "one: connected");
        let (time, rest) = plain.split_once(' ').unwrap();
        assert!(time.ends_with('Z') && time.contains('T'), "{plain}");
        assert_eq!(rest, " INFO one: connected\n");
    }

    #[test]
    fn the_journal_is_named_by_device_and_inode() {
        let own = nix::sys::stat::fstat(std::io::stderr().as_fd()).unwrap();
        assert!(is_journal(Some(&format!("{}:{}", own.st_dev, own.st_ino))));
        let other = format!("{}:{}", own.st_dev, own.st_ino + 1);
        for stream in [None, Some(""), Some("9"), Some("a:b"), Some(other.as_str())] {
            assert!(!is_journal(stream), "{stream:?}");
        }
    }
}

use jiff::civil::{Date, Time as CivilTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use kumade_units::Time;

/// A time in which no one is told of alerts, such as for maintenance.
#[derive(Debug, Clone)]
pub struct Silence {
    /// Ids of the pairs that it is about; none for all.
    pub pairs: Option<Vec<String>>,
    /// When.
    pub times: SilenceTimes,
}

/// When a silence is.
#[derive(Debug, Clone)]
pub enum SilenceTimes {
    /// Once, UTC.
    Once {
        /// From then on.
        from: Time,
        /// Until then, which is no part of it.
        to: Time,
    },
    /// Each week, by the clocks of a zone: where these are set forward or back within it, it is as much shorter or longer.
    Weekly {
        /// On which days it begins, from Monday on.
        days: [bool; 7],
        /// When it begins.
        from: CivilTime,
        /// When it ends: on the next day if that is no later than it begins.
        to: CivilTime,
        /// Whose clocks.
        zone: TimeZone,
    },
}

/// How days of the week are written, from Monday on.
pub const WEEKDAY_NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Silence {
    /// Whether all of these pairs are silent at this time, UTC; an alert on no pair is where all pairs are.
    pub fn covers(&self, pairs: &[String], utc: Time) -> bool {
        let names_all = match &self.pairs {
            None => true,
            Some(silent) => !pairs.is_empty() && pairs.iter().all(|pair| silent.contains(pair)),
        };
        names_all && self.times.contain(utc)
    }
}

impl SilenceTimes {
    /// Whether a time, UTC, is one of them.
    pub fn contain(&self, utc: Time) -> bool {
        match self {
            SilenceTimes::Once { from, to } => (*from..*to).contains(&utc),
            SilenceTimes::Weekly { days, from, to, zone } => {
                let Ok(time) = Timestamp::from_nanosecond(i128::from(utc.as_nanos())) else { return false };
                let local = time.to_zoned(zone.clone()).datetime();
                let begins_on = |date: Date| days[place_of_day(date.weekday())];
                if from < to {
                    return begins_on(local.date()) && (*from..*to).contains(&local.time());
                }
                let is_first_day = begins_on(local.date()) && local.time() >= *from;
                let yesterday = local.date().checked_sub(1.day());
                is_first_day || local.time() < *to && yesterday.is_ok_and(begins_on)
            }
        }
    }
}

fn place_of_day(day: Weekday) -> usize {
    usize::from(day.to_monday_zero_offset().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> Time {
        let time: Timestamp = text.parse().unwrap();
        Time::from_nanos(i64::try_from(time.as_nanosecond()).unwrap())
    }

    fn weekly(days: &[usize], from: i8, to: i8) -> SilenceTimes {
        SilenceTimes::Weekly {
            days: std::array::from_fn(|day| days.contains(&day)),
            from: CivilTime::constant(from, 0, 0, 0),
            to: CivilTime::constant(to, 0, 0, 0),
            // As Berlin has it, whatever this host knows of zones.
            zone: TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap(),
        }
    }

    #[test]
    fn windows_follow_the_clocks_of_their_zone_twice_a_year() {
        let silence = weekly(&[6], 1, 4);
        // Sunday, 2026-10-25: at 3:00 the clocks go back to 2:00. The window takes four hours, from 23:00 UTC to 3:00 UTC.
        let seen = ["2026-10-24T22:59:59Z", "2026-10-24T23:00:00Z", "2026-10-25T02:59:59Z", "2026-10-25T03:00:00Z"];
        assert_eq!(seen.map(|time| silence.contain(utc(time))), [false, true, true, false]);
        // Sunday, 2026-03-29: at 2:00 they go forward to 3:00. Two hours, from 0:00 UTC to 2:00 UTC.
        let seen = ["2026-03-28T23:59:59Z", "2026-03-29T00:00:00Z", "2026-03-29T01:59:59Z", "2026-03-29T02:00:00Z"];
        assert_eq!(seen.map(|time| silence.contain(utc(time))), [false, true, true, false]);
    }

    #[test]
    fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
        // From Friday evening.
        let silence = weekly(&[4], 22, 6);
        let seen = ["2026-11-27T20:59:00Z", "2026-11-27T21:00:00Z", "2026-11-28T04:59:00Z", "2026-11-28T05:00:00Z"];
        assert_eq!(seen.map(|time| silence.contain(utc(time))), [false, true, true, false]);
        assert!(!silence.contain(utc("2026-11-27T03:00:00Z")), "Thursday night");
    }

    #[test]
    fn an_alert_is_silent_where_all_of_its_pairs_are() {
        let (from, to) = (utc("2026-12-24T18:00:00Z"), utc("2026-12-27T06:00:00Z"));
        let silence =
            Silence { pairs: Some(vec!["a".to_owned(), "b".to_owned()]), times: SilenceTimes::Once { from, to } };
        let covers =
            |pairs: &[&str]| silence.covers(&pairs.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), from);
        assert!(covers(&["a"]) && covers(&["a", "b"]));
        assert!(!covers(&["a", "c"]) && !covers(&[]));
        assert!(!silence.covers(&["a".to_owned()], to));
        let all = Silence { pairs: None, ..silence };
        assert!(all.covers(&[], from) && !all.covers(&[], to));
    }
}

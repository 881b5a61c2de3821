//! The time of day, in seconds since 1970 and as RFC 3339 text in UTC: a token ends on a date, and
//! other servers date theirs; resources
//! have one.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;
/// Days of 400 years.
const ERA_DAYS: u64 = 146_097;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// A moment as text.
pub(crate) fn text(seconds: u64) -> String {
    // Years are counted from March, so that the day that some have is their last.
    let days = (seconds / DAY_S).saturating_add(DAYS_TO_1970);
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let of_day = seconds % DAY_S;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// A moment of a text such as `2026-11-21T16:00:00.000000Z`; fractions are dropped.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let time = time.split('.').next()?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let is_legal = (1_970..=9_999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_legal {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year;
    Some((days - DAYS_TO_1970) * DAY_S + hour * 3_600 + minute * 60 + second)
}

fn numbers(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| {
        let is_number = part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    });
    let found = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_they_are_read() {
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(text(seconds), written);
            assert_eq!(parse(written), Some(seconds), "{written}");
        }
        for step in 0..200_000 {
            let seconds = step * 40_009;
            assert_eq!(parse(&text(seconds)), Some(seconds), "{seconds}");
        }
        assert_eq!(parse("2027-01-01T00:00:00.123456Z"), Some(1_798_761_600));
    }

    #[test]
    fn what_is_no_moment_is_none() {
        for wrong in [
            "",
            "Z",
            "T",
            "2027-01-01",
            "2027-01-01T00:00:00",
            "2027-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2027-01-01T24:00:00Z",
            "2027-01-01T00:00:00+01:00",
            "2027-+1-01T00:00:00Z",
            "2027-01-01-01T00:00:00Z",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}

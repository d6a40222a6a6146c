//! Lengths of time as people write them: `90s`, `5m`, `6h`, `7d`.

use std::time::Duration;

/// A minute, in seconds.
pub const MINUTE: u64 = 60;
/// An hour, in seconds.
pub const HOUR: u64 = 60 * MINUTE;
/// A day, in seconds.
pub const DAY: u64 = 24 * HOUR;

/// A century. Much longer times cannot be added to the current time, and mean nothing.
const DURATION_MAX: Duration = Duration::from_secs(36_500 * DAY);

/// Parses `250ms`, `90s`, `5m`, `6h`, `7d`: a whole number and one unit, at most a century.
///
/// # Errors
/// The text is not a duration, or is longer than a century; the message says what to write.
pub fn parse(text: &str) -> Result<Duration, String> {
    match parse_any(text)? {
        duration if duration > DURATION_MAX => {
            Err(format!("\"{text}\" is too long; write 36500d at most"))
        }
        duration => Ok(duration),
    }
}

fn parse_any(text: &str) -> Result<Duration, String> {
    let refuse = || {
        format!(
            "\"{text}\" is not a duration; write a whole number and a unit: 30s, 5m, 6h, 7d, 250ms"
        )
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| refuse())?;
    let seconds = |factor: u64| {
        number
            .checked_mul(factor)
            .map(Duration::from_secs)
            .ok_or_else(refuse)
    };
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(MINUTE),
        "h" => seconds(HOUR),
        "d" => seconds(DAY),
        _ => Err(refuse()),
    }
}

/// Writes a duration in the largest unit that gives a whole number: `90s`, `2m`, `250ms`. Parts of a millisecond are
/// dropped.
pub fn format(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if duration.subsec_millis() != 0 {
        return format!("{}ms", duration.as_millis());
    }
    for (factor, unit) in [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")] {
        if seconds != 0 && seconds.is_multiple_of(factor) {
            return format!("{}{unit}", seconds / factor);
        }
    }
    format!("{seconds}s")
}

/// Writes a length of time for people, rounded down to one unit: `30s`, `15m`, `6h`, `4d`. A negative one is
/// `0s`.
pub fn rough(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    match seconds {
        0..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ => format!("{}d", seconds / DAY),
    }
}

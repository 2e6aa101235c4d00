//! Formats of times.

use chrono::{DateTime, Local};

use super::keyword::{OPERAND_ERROR_STATUS, keyword};
use crate::call::CommandError;
use crate::commands::date::WallTime;
use trumanfs_types::meta::Time;

/// Half an average Gregorian year, in seconds: older times and future ones are shown with their year.
const RECENT_SECONDS: i64 = 31_556_952 / 2;

/// The formats of the C locale.
const LOCALE: (&str, &str) = ("%b %e  %Y", "%b %e %H:%M");

/// The formats of old and of recent times.
#[derive(Debug, Clone)]
pub(super) struct TimeStyle {
    old: Vec<u8>,
    recent: Vec<u8>,
}

impl TimeStyle {
    /// Returns the style of a name, or of `+FORMAT`, whose second line is for recent times.
    ///
    /// # Errors
    /// [`CommandError::Usage`].
    pub(super) fn from_name(name: &[u8]) -> Result<TimeStyle, CommandError> {
        if let Some(format) = name.strip_prefix(b"+") {
            let mut formats = format.splitn(2, |byte| *byte == b'\n');
            let old = formats.next().unwrap_or_default();
            let recent = formats.next().unwrap_or(old);
            if recent.contains(&b'\n') {
                let message = [b"invalid time style format '", format, b"'"].concat();
                return Err(CommandError::Usage(message, OPERAND_ERROR_STATUS));
            }
            return Ok(TimeStyle {
                old: old.to_vec(),
                recent: recent.to_vec(),
            });
        }
        // POSIX styles mean the default style in the C locale.
        if name.starts_with(b"posix-") {
            return Ok(TimeStyle::default());
        }
        let (old, recent) = keyword(
            "time style",
            name,
            &[
                ("full-iso", ("%Y-%m-%d %H:%M:%S.%N %z", None)),
                ("long-iso", ("%Y-%m-%d %H:%M", None)),
                ("iso", ("%Y-%m-%d ", Some("%m-%d %H:%M"))),
                ("locale", (LOCALE.0, Some(LOCALE.1))),
            ],
        )
        .map_err(|stop| match stop {
            CommandError::Usage(message, _) => CommandError::Usage(message, OPERAND_ERROR_STATUS),
            stop => stop,
        })?;
        Ok(TimeStyle {
            old: old.into(),
            recent: recent.unwrap_or(old).into(),
        })
    }

    /// Formats a time.
    pub(super) fn format_time(&self, time: Time, now: &mut Time) -> Vec<u8> {
        let Some(at) = DateTime::from_timestamp(time.sec, time.nsec) else {
            return time.sec.to_string().into_bytes();
        };
        // The file may have changed after `now` was taken.
        if time > *now {
            *now = current_time();
        }
        let since = Time {
            sec: now.sec - RECENT_SECONDS,
            nsec: now.nsec,
        };
        let format = if since < time && time <= *now {
            &self.recent
        } else {
            &self.old
        };
        WallTime::local(at.with_timezone(&Local)).format(format)
    }
}

impl Default for TimeStyle {
    fn default() -> TimeStyle {
        TimeStyle {
            old: LOCALE.0.into(),
            recent: LOCALE.1.into(),
        }
    }
}

/// Returns the current time.
pub(super) fn current_time() -> Time {
    let now = Local::now();
    Time {
        sec: now.timestamp(),
        nsec: now.timestamp_subsec_nanos(),
    }
}

//! The quota of a lease: the limits of what a task may use. Every limit is required and has bounds.

use serde::{Deserialize, Serialize};

use super::strict::FormatError;

/// The largest whole number that every reader of JSON has exactly.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The limits, by name, with their lowest and highest values.
const BOUNDS: [(&str, u64, u64); 5] = [
    ("wall_ms", 1, DAY_MS),
    ("cpu_ms", 1, DAY_MS),
    ("memory_bytes", 1, MAX_NUMBER),
    ("io_bytes", 0, MAX_NUMBER),
    ("file_bytes", 0, MAX_NUMBER),
];

const DAY_MS: u64 = 86_400_000;

/// The limits of what a task may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskQuota {
    /// Time from start to end, in milliseconds.
    pub wall_ms: u64,
    /// Time on processors, in milliseconds.
    pub cpu_ms: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Data that is copied, in bytes.
    pub io_bytes: u64,
    /// The length of one file, in bytes.
    pub file_bytes: u64,
}

impl Default for TaskQuota {
    /// Returns the quota that `lease issue` gives by default: a minute, ten seconds, 256 MiB, and files of 1 GiB.
    fn default() -> TaskQuota {
        TaskQuota {
            wall_ms: 60_000,
            cpu_ms: 10_000,
            memory_bytes: 256 << 20,
            io_bytes: 1 << 30,
            file_bytes: 1 << 30,
        }
    }
}

impl TaskQuota {
    /// Checks that each limit is within its bounds.
    ///
    /// # Errors
    /// One is not.
    pub fn check(&self) -> Result<(), FormatError> {
        for ((name, lowest, highest), value) in BOUNDS.iter().zip(self.values()) {
            if !(lowest..=highest).contains(&&value) {
                return Err(FormatError::new(format!(
                    "quota.{name} is {value}, not {lowest} to {highest}"
                )));
            }
        }
        Ok(())
    }

    /// Sets a limit by its name.
    ///
    /// # Errors
    /// There is no such limit.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), FormatError> {
        let place = match name {
            "wall_ms" => &mut self.wall_ms,
            "cpu_ms" => &mut self.cpu_ms,
            "memory_bytes" => &mut self.memory_bytes,
            "io_bytes" => &mut self.io_bytes,
            "file_bytes" => &mut self.file_bytes,
            other => {
                let names: Vec<&str> = BOUNDS.iter().map(|(name, ..)| *name).collect();
                return Err(FormatError::new(format!(
                    "{other:?} is no limit; there are {}",
                    names.join(", ")
                )));
            }
        };
        *place = value;
        Ok(())
    }

    fn values(&self) -> [u64; 5] {
        [
            self.wall_ms,
            self.cpu_ms,
            self.memory_bytes,
            self.io_bytes,
            self.file_bytes,
        ]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::super::strict;
    use super::*;

    #[test]
    fn every_limit_is_required_and_bounded() {
        assert_eq!(TaskQuota::default().check(), Ok(()));
        let text = serde_json::to_string(&TaskQuota::default()).unwrap();
        assert_eq!(
            strict::read::<TaskQuota>(text.as_bytes(), 1000),
            Ok(TaskQuota::default())
        );
        for (index, (name, lowest, highest)) in BOUNDS.into_iter().enumerate() {
            let mut quota = TaskQuota::default();
            for good in [lowest, highest] {
                quota.set(name, good).unwrap();
                assert_eq!(
                    (quota.values()[index], quota.check()),
                    (good, Ok(())),
                    "{name}"
                );
            }
            for bad in [lowest.wrapping_sub(1), highest + 1] {
                quota.set(name, bad).unwrap();
                assert!(
                    quota.check().unwrap_err().to_string().contains(name),
                    "{name} {bad}"
                );
            }
            let value = TaskQuota::default().values()[index];
            let stripped = text
                .replace(&format!("\"{name}\":{value}"), "")
                .replace(",,", ",")
                .replace("{,", "{")
                .replace(",}", "}");
            assert_ne!(stripped, text);
            assert!(
                strict::read::<TaskQuota>(stripped.as_bytes(), 1000).is_err(),
                "{stripped}"
            );
        }
        assert!(TaskQuota::default().set("disk_bytes", 1).is_err());
        assert!(
            strict::read::<TaskQuota>(text.replacen('{', "{\"x\":1,", 1).as_bytes(), 1000).is_err()
        );
    }
}

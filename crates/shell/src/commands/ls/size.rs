//! Human-readable sizes, rounded up as GNU does.

/// The unit of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SizeScale {
    /// Bytes; blocks of 1024 bytes.
    Plain,
    /// `1.5K`: powers of 1024.
    Binary,
    /// `1.6k`: powers of 1000.
    Decimal,
}

/// The unit of `st_blocks`, in bytes.
const SECTOR: u64 = 512;

impl SizeScale {
    /// Returns the size of a file.
    pub(super) fn bytes(self, bytes: u64) -> String {
        match self {
            SizeScale::Plain => bytes.to_string(),
            SizeScale::Binary => human_size(bytes.into(), 1024, "KMGTPEZ"),
            SizeScale::Decimal => human_size(bytes.into(), 1000, "kMGTPEZ"),
        }
    }

    /// Returns the space that a file takes.
    pub(super) fn blocks(self, sectors: u64) -> String {
        let bytes = sectors.saturating_mul(SECTOR);
        match self {
            SizeScale::Plain => bytes.div_ceil(1024).to_string(),
            scale => scale.bytes(bytes),
        }
    }
}

/// Formats a size with one decimal below ten, none above.
fn human_size(bytes: u128, base: u128, units: &str) -> String {
    let mut unit = 1;
    let mut letter = None;
    for next in units.chars() {
        // A size that rounds up to a whole next unit is given in that unit.
        if bytes.div_ceil(unit) < base {
            break;
        }
        unit *= base;
        letter = Some(next);
    }
    let tenths = (bytes * 10).div_ceil(unit);
    match letter {
        None => bytes.to_string(),
        Some(letter) if tenths < 100 => format!("{}.{}{letter}", tenths / 10, tenths % 10),
        Some(letter) => format!("{}{letter}", bytes.div_ceil(unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        let k = 1024;
        for (bytes, binary, decimal) in [
            (0, "0", "0"),
            (999, "999", "999"),
            (1000, "1000", "1.0k"),
            (1023, "1023", "1.1k"),
            (k, "1.0K", "1.1k"),
            (k + 1, "1.1K", "1.1k"),
            (9 * k + 922, "10K", "11k"),
            (10 * k + 1, "11K", "11k"),
            (1023 * k, "1023K", "1.1M"),
            (1023 * k + 1, "1.0M", "1.1M"),
            (5 << 30, "5.0G", "5.4G"),
            (u64::MAX, "16E", "19E"),
        ] {
            assert_eq!(SizeScale::Binary.bytes(bytes), binary, "{bytes}");
            assert_eq!(SizeScale::Decimal.bytes(bytes), decimal, "{bytes}");
        }
        assert_eq!(SizeScale::Plain.blocks(9), "5");
        assert_eq!(SizeScale::Binary.blocks(8), "4.0K");
    }
}

//! The memory maps of a process (proc_pid_maps(5)).

use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// The time that reading the maps may take: it waits for a lock of the process, which another thread may hold while it
/// waits for the caller.
const TIME_LIMIT: Duration = Duration::from_millis(5);

/// Returns whether a process has a shared map of a file through which it may write; true where that cannot be told in
/// time.
pub fn may_write_through_a_map(pid: u32) -> bool {
    if pid == 0 {
        return true;
    }
    let (sender, answer) = sync_channel(1);
    let look = move || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
        let _ = sender.send(maps.map_or(true, |maps| maps.lines().any(is_shared)));
    };
    let thread = std::thread::Builder::new().name("maps".to_owned());
    match thread.spawn(look) {
        Ok(_) => answer.recv_timeout(TIME_LIMIT).unwrap_or(true),
        Err(_) => true,
    }
}

/// Returns whether a line is of a shared map of a file that is writable, or was.
fn is_shared(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let permissions = fields.nth(1).unwrap_or_default().as_bytes();
    permissions.get(3) == Some(&b's') && permissions.get(1) == Some(&b'w')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_writable_maps_are_recognised() {
        for (line, shared) in [
            (
                "7f0000000000-7f0000001000 rw-s 00000000 fe:00 131 /home/a",
                true,
            ),
            (
                "7f0000000000-7f0000001000 rw-p 00000000 fe:00 131 /home/a",
                false,
            ),
            (
                "7f0000000000-7f0000001000 r--s 00000000 fe:00 131 /home/a",
                false,
            ),
            ("7f0000000000-7f0000001000 rw-p 00000000 00:00 0", false),
        ] {
            assert_eq!(is_shared(line), shared, "{line}");
        }
        assert!(may_write_through_a_map(0));
    }
}

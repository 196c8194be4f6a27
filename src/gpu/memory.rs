//! How much a software device may take: what the machine has left. Its buffers are ordinary memory,
//! handed out without a question and missed only when they are filled, by the whole machine.

/// Bytes a software device can still use here, where the system says so.
pub fn available() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn parse(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_line_that_counts() {
        let text = "MemTotal:       24683652 kB\nMemFree: 1 kB\nMemAvailable:   23131088 kB\n";
        assert_eq!(super::parse(text), Some(23_131_088 << 10));
        assert_eq!(super::parse("MemTotal: 1 kB\n"), None);
        assert_eq!(super::parse("MemAvailable: much\n"), None);
    }
}

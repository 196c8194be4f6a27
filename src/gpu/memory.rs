//! How much a device may take. A software device's buffers are ordinary memory, handed out without a
//! question and missed only when they are filled, by the whole machine: it has what the machine has left.
//! Of a GPU, Vulkan says how large its own memory is, and many drivers how much of it is left.

use super::trusted;

/// Bytes that a device has left, where that is known, and how, or why not.
pub fn left(adapter: &wgpu::Adapter, software: bool) -> (Option<u64>, &'static str) {
    if software {
        return match available() {
            Some(bytes) => (Some(bytes), "memory this machine has left"),
            None => (None, "unknown: the system does not say what memory is left"),
        };
    }
    match trusted::heaps(adapter) {
        None => (None, "unknown: only Vulkan tells it"),
        Some(heaps) => of_heaps(&heaps),
    }
}

/// A kind of memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// All its bytes.
    pub bytes: u64,
    /// It is the device's own.
    pub local: bool,
    /// Bytes of it this process may have more, where the driver says so.
    pub left: Option<u64>,
}

/// Weights and cache go to the largest heap of the device's own.
fn of_heaps(heaps: &[Heap]) -> (Option<u64>, &'static str) {
    let local = heaps.iter().filter(|h| h.local);
    match local.max_by_key(|h| h.bytes) {
        None => (None, "unknown: no heap is the device's own"),
        Some(Heap { left: Some(n), .. }) => (
            Some(*n),
            "what its driver leaves of its memory (VK_EXT_memory_budget)",
        ),
        Some(h) => (
            Some(h.bytes),
            "all of its memory: its driver does not say what is left",
        ),
    }
}

/// Bytes that this machine has left, where the system says so.
fn available() -> Option<u64> {
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
    use super::*;

    #[test]
    fn the_line_that_counts() {
        let text = "MemTotal:       24683652 kB\nMemFree: 1 kB\nMemAvailable:   23131088 kB\n";
        assert_eq!(parse(text), Some(23_131_088 << 10));
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
        assert_eq!(parse("MemAvailable: much\n"), None);
    }

    /// Whatever devices there are, software ones too: what Vulkan says can be used.
    #[test]
    fn vulkan_tells_its_heaps() {
        for adapter in super::super::adapters::list(&super::super::adapters::instance()) {
            let info = adapter.get_info();
            let heaps = trusted::heaps(&adapter);
            assert_eq!(heaps.is_some(), info.backend == wgpu::Backend::Vulkan);
            for h in heaps.into_iter().flatten() {
                assert!(h.bytes > 0 && h.left.is_none_or(|n| n <= h.bytes), "{h:?}");
            }
        }
    }

    #[test]
    fn the_heap_that_counts() {
        let heap = |bytes, local, left| Heap { bytes, local, left };
        let host = heap(64 << 30, false, Some(60 << 30));
        let window = heap(256 << 20, true, Some(250 << 20));
        let own = heap(8 << 30, true, None);
        assert_eq!(of_heaps(&[host, own, window]).0, Some(8 << 30));
        let told = heap(8 << 30, true, Some(7 << 30));
        assert_eq!(of_heaps(&[window, told, host]).0, Some(7 << 30));
        assert_eq!(of_heaps(&[host]).0, None);
        assert!(of_heaps(&[]).1.starts_with("unknown"));
    }
}

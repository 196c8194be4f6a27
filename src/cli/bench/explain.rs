//! `tokstep bench --explain`: where the time of one decode step goes, by kernel and kind of step, what
//! of it is lost against a copy's speed, and the host's part.

use super::measure::{self, Yardsticks};
use super::row::{Host, Part};
use crate::cli::out;
use tokstep::gpu::StepTime;
use tokstep::plan::cost::Bytes;
use tokstep::{Engine, Result};

/// Decode steps that the host's part is measured over.
const STEPS: u32 = 32;
/// Positions that explaining needs beyond its prompt.
pub const ROOM: u32 = STEPS + 8;

/// Steps of the same kind in all layers.
#[derive(Debug, Default, PartialEq)]
struct Group {
    /// Kernel and step, `matvec ffn_down`.
    name: String,
    dispatches: u32,
    ns: f64,
    bytes: Bytes,
}

impl Group {
    /// Nanoseconds more than reading its bytes at a copy's speed would take; all of them where it reads
    /// neither weights nor KV.
    fn lost(&self, copy: f64) -> f64 {
        self.ns - self.bytes.total() as f64 / copy * 1e9
    }

    /// Bytes per second.
    fn rate(&self) -> f64 {
        self.bytes.total() as f64 / self.ns * 1e9
    }
}

/// Prints to stderr, so that the results on stdout stay what they are.
pub fn run(engine: &Engine, prompt: &[u32], slots: u32, yard: Yardsticks) -> Result<()> {
    let sequences = match slots {
        1 => String::new(),
        n => format!(" of {n} sequences"),
    };
    let n = prompt.len();
    match engine.step_times(prompt)? {
        Some(times) => {
            say(&format!(
                "\nOne decode step{sequences} after {n} positions, by GPU timestamps (median of 5, each dispatch a pass of its own):"
            ));
            device(&groups(&times), yard.copy)
                .iter()
                .for_each(|l| say(l));
        }
        None => say(&format!(
            "\n{} has no timestamps: a step cannot be split up by kernel",
            engine.info().device
        )),
    }
    let samples = measure::steps(engine, prompt, slots, STEPS)?;
    if let Some(host) = Host::of(&samples) {
        say(&format!(
            "\nThe host's part{sequences}, per step over {STEPS} steps after {n} positions:"
        ));
        host_lines(&host).iter().for_each(|l| say(l));
    }
    Ok(())
}

fn say(line: &str) {
    out::say(format_args!("{line}"));
}

/// Layers do the same work: `blk.7.ffn_down` counts to `ffn_down`. Longest first.
fn groups(times: &[StepTime]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for t in times {
        let part = match t.label.strip_prefix("blk.").and_then(|l| l.split_once('.')) {
            Some((_, part)) => part,
            None => &t.label,
        };
        let name = match part == t.kernel {
            true => part.to_owned(),
            false => format!("{} {part}", t.kernel),
        };
        let at = groups.iter().position(|g| g.name == name);
        let at = at.unwrap_or_else(|| {
            groups.push(Group {
                name,
                ..Group::default()
            });
            groups.len() - 1
        });
        let group = &mut groups[at];
        group.dispatches += 1;
        group.ns += t.ns;
        group.bytes += t.bytes;
    }
    groups.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    groups
}

/// The table of a step and its largest losses in words.
fn device(groups: &[Group], copy: f64) -> Vec<String> {
    let mut all = Group {
        name: "all".into(),
        ..Group::default()
    };
    for g in groups {
        all.dispatches += g.dispatches;
        all.ns += g.ns;
        all.bytes += g.bytes;
    }
    let total = all.ns;
    let line = |g: &Group| {
        let (each, share) = (g.ns / f64::from(g.dispatches) / 1e3, 100.0 * g.ns / total);
        let (mb, speed) = match g.bytes.total() {
            0 => ("-".into(), ["-".into(), "-".into()]),
            bytes => {
                let (gb, percent) = (g.rate() / 1e9, 100.0 * g.rate() / copy);
                let speed = [format!("{gb:.2}"), format!("{percent:.1}")];
                (format!("{:.3}", bytes as f64 / 1e6), speed)
            }
        };
        let [gb, percent] = speed;
        format!(
            "| {:<32} | {:>4} | {each:>9.1} | {:>9.1} | {share:>7.1} | {mb:>9} | {gb:>7} | {percent:>6} |",
            g.name,
            g.dispatches,
            g.ns / 1e3
        )
    };
    let mut lines = vec![
        format!(
            "| {:<32} | disp | us each   | us        | share % | MB        | GB/s    | % copy |",
            "kernel, step"
        ),
        format!(
            "| {} | ---: | --------: | --------: | ------: | --------: | ------: | -----: |",
            "-".repeat(32)
        ),
    ];
    lines.extend(groups.iter().chain([&all]).map(line));
    lines.push("The largest losses:".into());
    lines.extend(losses(groups, copy).into_iter().map(|l| format!("  {l}")));
    lines
}

/// The three groups that lose most against a copy's speed, in words.
fn losses(groups: &[Group], copy: f64) -> Vec<String> {
    let total: f64 = groups.iter().map(|g| g.ns).sum();
    let mut by_loss: Vec<&Group> = groups.iter().filter(|g| g.lost(copy) > 0.0).collect();
    by_loss.sort_by(|a, b| b.lost(copy).total_cmp(&a.lost(copy)));
    let say = |g: &&Group| {
        let (share, lost) = (100.0 * g.ns / total, 100.0 * g.lost(copy) / total);
        match g.bytes.total() {
            0 => format!(
                "{}: {share:.1} % of the step, reads neither weights nor KV; without it the step would be {lost:.1} % shorter",
                g.name
            ),
            _ => format!(
                "{}: {share:.1} % of the step, {:.1} % of copy; at copy speed the step would be {lost:.1} % shorter",
                g.name,
                100.0 * g.rate() / copy
            ),
        }
    };
    by_loss.iter().take(3).map(say).collect()
}

/// The host's times in words.
fn host_lines(h: &Host) -> Vec<String> {
    let part = |name: &str, p: Part| format!("{name} {:.1} us ({:.1} us CPU)", p.wall, p.cpu);
    vec![
        format!(
            "  {}, while the device works; {}; {}; {}",
            part("encode", h.record),
            part("submit", h.submit),
            part("wait", h.wait),
            part("readback", h.readback),
        ),
        format!(
            "  together {:.1} us CPU, {:.2} % of the step, {:.2} us per dispatch",
            h.cpu, h.percent, h.cpu_per_dispatch
        ),
        format!(
            "  the queue stands empty {:.1} us between a wait's end and the next submit, and for up to {:.1} us of the wait, its CPU time",
            h.empty, h.wait.cpu
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(kernel: &'static str, label: &str, ns: f64, weights: u64) -> StepTime {
        StepTime {
            kernel,
            label: label.into(),
            ns,
            bytes: Bytes { weights, kv: 0 },
        }
    }

    /// At 1 GB/s a byte takes a nanosecond.
    #[test]
    fn losses_are_what_a_copy_would_save() {
        let times = [
            time("matvec", "blk.0.ffn_down", 200.0, 150),
            time("rms_norm", "blk.0.attn_norm", 100.0, 0),
            time("matvec", "blk.1.ffn_down", 300.0, 150),
            time("matvec", "output", 390.0, 390),
            time("sample", "sample", 10.0, 0),
        ];
        let groups = groups(&times);
        let names: Vec<_> = groups.iter().map(|g| (g.name.as_str(), g.ns)).collect();
        assert_eq!(
            names,
            [
                ("matvec ffn_down", 500.0),
                ("matvec output", 390.0),
                ("rms_norm attn_norm", 100.0),
                ("sample", 10.0)
            ]
        );
        assert_eq!(
            losses(&groups, 1e9),
            [
                "matvec ffn_down: 50.0 % of the step, 60.0 % of copy; at copy speed the step would be 20.0 % shorter",
                "rms_norm attn_norm: 10.0 % of the step, reads neither weights nor KV; without it the step would be 10.0 % shorter",
                "sample: 1.0 % of the step, reads neither weights nor KV; without it the step would be 1.0 % shorter",
            ]
        );
        let table = device(&groups, 1e9);
        assert_eq!(table.len(), 2 + 5 + 1 + 3);
        let widths: Vec<usize> = table[..7].iter().map(|l| l.chars().count()).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "{table:#?}");
    }
}

//! `tokstep bench --explain`: where the time of one decode step goes, by kernel and kind of step.

use tokstep::{Engine, Result};

/// Positions that explaining needs beyond its prompt.
pub const ROOM: u32 = 8;

/// Prints a table to stderr, so that the results on stdout stay what they are.
pub fn run(engine: &Engine, prompt: &[u32]) -> Result<()> {
    let Some(times) = engine.step_times(prompt)? else {
        eprintln!(
            "{} has no timestamps: a step cannot be split up",
            engine.info().device
        );
        return Ok(());
    };
    let total: f64 = times.iter().map(|t| t.ns).sum();
    // Layers do the same work: `blk.7.ffn_down` counts to `ffn_down`.
    let mut groups: Vec<(String, u32, f64)> = Vec::new();
    for t in &times {
        let part = match t.label.strip_prefix("blk.").and_then(|l| l.split_once('.')) {
            Some((_, part)) => part,
            None => &t.label,
        };
        let name = format!("{} {part}", t.kernel);
        match groups.iter_mut().find(|(n, ..)| *n == name) {
            Some((_, n, ns)) => {
                *n += 1;
                *ns += t.ns;
            }
            None => groups.push((name, 1, t.ns)),
        }
    }
    groups.sort_by(|a, b| b.2.total_cmp(&a.2));
    eprintln!(
        "\nOne decode step after {} positions, by GPU timestamps (median of 5, each dispatch a pass of its own):",
        prompt.len()
    );
    eprintln!("| kernel, step | dispatches | us each | share |");
    eprintln!("| --- | ---: | ---: | ---: |");
    for (name, n, ns) in &groups {
        let (each, share) = (ns / f64::from(*n) / 1e3, 100.0 * ns / total);
        eprintln!("| {name} | {n} | {each:.1} | {share:.1} % |");
    }
    eprintln!(
        "| all | {} | {:.1} | 100 % |",
        times.len(),
        total / times.len() as f64 / 1e3
    );
    Ok(())
}

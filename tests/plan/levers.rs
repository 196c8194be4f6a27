//! What a plan uses can be done without: for each variant there are levers that lead around it.

use std::collections::BTreeSet;

use tokstep::kernel::choose::LEVERS;
use tokstep::kernel::{Caps, Shader};
use tokstep::model::Model;
use tokstep::plan;
use tokstep::plan::sizes::Wish;

use super::profiles::{browser, low};
use super::{gpu, model, models, plain_gpu, software, steps};

/// All sets of at most `most` levers, small ones first.
fn sets(most: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut from = 0;
    for _ in 0..most {
        let end = all.len();
        for i in from..end {
            let first = all[i].last().map_or(0, |l: &usize| l + 1);
            for lever in first..LEVERS.len() {
                let mut longer = all[i].clone();
                longer.push(lever);
                all.push(longer);
            }
        }
        from = end;
    }
    all
}

/// The variants of a model's plans for a device that does without what levers say; `None`: it has no room.
fn used(m: &Model, caps: &Caps, slots: u32, levers: &[usize]) -> Option<BTreeSet<Shader>> {
    let mut caps = caps.clone();
    levers.iter().for_each(|i| LEVERS[*i].1(&mut caps));
    let wish = Wish {
        context: Some(600),
        slots,
        chunk: None,
    };
    let p = plan::fit(m, &caps, wish).ok()?;
    Some(steps(&p).map(|s| s.shader.clone()).collect())
}

/// By as many levers as the engine pulls at once. No kernel of a plan is an exception.
#[test]
fn every_variant_can_be_done_without() {
    let sets = sets(4);
    let (mut bad, mut known) = (BTreeSet::new(), 0);
    let mut no_subgroups = software();
    (no_subgroups.subgroups, no_subgroups.subgroup_min) = (false, 1);
    no_subgroups.subgroup_max = 1;
    let devices = [
        ("software", software()),
        ("software without subgroups", no_subgroups),
        ("gpu", gpu()),
        ("plain gpu", plain_gpu()),
        ("browser software", browser(true)),
        ("browser gpu", browser(false)),
        ("low software", low(true)),
        ("low gpu", low(false)),
    ];
    for path in models() {
        let m = model(&path);
        for (device, caps) in &devices {
            for slots in [1, 3, 12] {
                let Some(mut left) = used(&m, caps, slots, &[]) else {
                    continue;
                };
                known += left.len();
                for set in &sets {
                    if let Some(other) = used(&m, caps, slots, set) {
                        left.retain(|s| other.contains(s));
                    }
                    if left.is_empty() {
                        break;
                    }
                }
                let named = |s: &Shader| format!("{device}, {slots} slots: {s}");
                bad.extend(left.iter().map(named));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(known > 1000, "{known}");
}

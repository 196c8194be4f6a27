//! The sampling kernels on a device against their twins: the same random logits and settings, step
//! after step, must leave the same tokens, slots, columns and history.

mod common;

use common::{Limits, gpu_trial};
use tokstep::gpu::{Gpu, GpuProgram};
use tokstep::kernel::params::{LogitsPart, Penalize, Sample, Slot};
use tokstep::kernel::{Caps, Shader};
use tokstep::plan::{Batch, Bind, Buffer, Dim, Init, Io, Plan, Pool, Program, Sizes, Step, Which};
use tokstep::reference::{Binds, Data, twin};
use tokstep::selftest::noise::Rng;

const NAMES: [&str; 7] = ["logits", "part", "rows", "slots", "cols", "history", "ring"];
const HIST: u32 = 64;
const RING: u32 = 8;
/// Slot of each logits row; slot 3 is not active, slot 4 has no row.
const ROWS: [u32; 5] = [2, u32::MAX, 0, 3, 1];
const SLOTS: usize = 5;

fn program(caps: &Caps, lanes: u32, n_vocab: u32, n_parts: u32) -> Program {
    let stride = n_vocab.next_multiple_of(64);
    let rows = ROWS.len() as u32;
    let words = [
        rows * stride,
        rows * n_parts * 4,
        rows,
        16 * SLOTS as u32,
        4 * (1 + SLOTS as u32),
        HIST * SLOTS as u32,
        RING * SLOTS as u32,
    ];
    let buffer = |(name, n): (&&str, u32)| Buffer {
        name: name.to_string(),
        pool: Pool::Scratch,
        bytes: 4 * n as u64,
        texture: None,
        layers: 0,
        init: Init::Zero,
    };
    let step = |kernel: &'static str, params: Vec<u8>, grid: [u32; 3]| {
        let k = tokstep::kernel::by_name(kernel);
        let bind = |n: &&'static str| Bind {
            name: n,
            buf: NAMES.iter().position(|m| m == n).expect("a known buffer"),
            offset: 0,
        };
        Step {
            label: kernel.into(),
            shader: Shader {
                kernel,
                slots: vec![caps.group()],
                overrides: vec![("WG", lanes)],
            },
            params,
            binds: k.reads.iter().chain(k.writes).map(bind).collect(),
            grid: grid.map(Dim::Fixed),
            first_col: 0,
            shape: None,
            live: 1..=u32::MAX,
        }
    };
    let span = n_vocab.div_ceil(n_parts);
    let body = vec![
        step(
            "penalize",
            bytemuck::bytes_of(&Penalize {
                n_vocab,
                stride,
                hist_stride: HIST,
            })
            .to_vec(),
            [rows, 1, 1],
        ),
        step(
            "logits_part",
            bytemuck::bytes_of(&LogitsPart {
                n_vocab,
                stride,
                n_parts,
                span,
            })
            .to_vec(),
            [n_parts, rows, 1],
        ),
        step(
            "sample",
            bytemuck::bytes_of(&Sample {
                n_vocab,
                stride,
                n_parts,
                hist_stride: HIST,
                ring_len: RING,
            })
            .to_vec(),
            [rows, 1, 1],
        ),
    ];
    let none = |name| Plan {
        name,
        width: 1,
        body: vec![],
        tail: vec![],
    };
    Program {
        buffers: NAMES.iter().zip(words).map(buffer).collect(),
        decode: Plan {
            name: "decode",
            width: 1,
            body,
            tail: vec![],
        },
        prefill: none("prefill"),
        logits: none("logits"),
        io: Io {
            logits: 0,
            prompt_rows: 2,
            slots: 3,
            cols: 4,
            prompt_cols: 4,
            history: 5,
            ring: 6,
            pages: 6,
        },
        sizes: Sizes {
            context: HIST,
            slots: SLOTS as u32,
            chunk: 1,
            logits_cols: 1,
            width: 1,
            pages_per_slot: 1,
            logits_stride: stride,
            hdp: 8,
        },
    }
}

fn logits(r: &mut Rng, stride: usize) -> Vec<f32> {
    let (spread, ties, special) = (
        r.of(&[0.1, 1.0, 4.0, 30.0]),
        r.of(&[false, true]),
        r.next() % 16,
    );
    (0..stride * ROWS.len())
        .map(|_| {
            let v = spread * (r.unit() + r.unit() + r.unit() + r.unit() - 2.0);
            let v = if ties { v.round() } else { v };
            let rare = r.next() % 256;
            match special {
                0 if rare == 0 => f32::NAN,
                1 if rare == 0 => f32::INFINITY,
                2 => f32::NEG_INFINITY,
                3..6 if rare < 128 => f32::NEG_INFINITY,
                _ => v,
            }
        })
        .collect()
}

fn slot(r: &mut Rng) -> Slot {
    Slot {
        temp: r.of(&[0.0, 0.3, 1.0, 2.0]),
        top_k: r.of(&[0, 1, 3, 40, 300, 5000]),
        top_p: r.of(&[1.0, 0.95, 0.5, 0.0]),
        min_p: r.of(&[0.0, 0.05, 0.5, 1.5]),
        seed_lo: r.next(),
        seed_hi: r.next(),
        repeat_penalty: r.of(&[1.0, 1.1, 2.0]),
        repeat_last_n: r.of(&[0, 3, 64, 8192]),
        count: r.next() % 100,
        hist_len: r.next() % (HIST + 3),
        ..Default::default()
    }
}

fn compare(lanes: u32, n_vocab: u32, n_parts: u32, steps: u32) {
    let gpu =
        Gpu::open_limited(common::device().as_deref(), None, common::limits()).expect("a device");
    let mut all_caps = vec![gpu.caps.clone()];
    if gpu.caps.subgroups {
        all_caps.push(Caps {
            subgroups: false,
            ..gpu.caps.clone()
        });
    }
    for caps in all_caps {
        let program = program(&caps, lanes.min(caps.max_lanes), n_vocab, n_parts);
        let stride = program.sizes.logits_stride as usize;
        let g = GpuProgram::load(gpu.clone(), program, &mut |_| ()).expect("compiles");
        let mut r = Rng(0x9e37_79b9_7f4a_7c15 + n_vocab as u64);
        for n in 0..steps {
            let slots: Vec<Slot> = (0..SLOTS).map(|_| slot(&mut r)).collect();
            let mut cols = vec![5, 0, 0, 0];
            (0..SLOTS as u32).for_each(|s| cols.extend([0, 10 + s, s, u32::from(s != 3)]));
            // Some history lies past the vocabulary and past what is valid.
            let past = n_vocab + n_vocab / 8 + 1;
            let history: Vec<u32> = (0..HIST * SLOTS as u32).map(|_| r.next() % past).collect();
            let mut store = vec![
                Data::F32(logits(&mut r, stride)),
                Data::U32(vec![0; ROWS.len() * n_parts as usize * 4]),
                Data::U32(ROWS.to_vec()),
                Data::U32(bytemuck::cast_slice(&slots).to_vec()),
                Data::U32(cols),
                Data::U32(history),
                Data::U32(vec![7; RING as usize * SLOTS]),
            ];
            for (id, d) in store.iter().enumerate() {
                g.write(id, 0, words(d));
            }
            let batch = Batch { cols: 1, kv_len: 1 };
            gpu.submit(g.record(Which::Decode, std::iter::once(batch), |_| ()));
            for step in &g.program.decode.body {
                let list: Vec<_> = step.binds.iter().map(|b| (b.name, b.buf, 0)).collect();
                let grid = step.grid(batch).expect("fixed");
                twin(step.shader.kernel)(&step.params, grid, &mut Binds::new(&mut store, &list));
            }
            for id in 2..NAMES.len() {
                let (got, want) = (g.read(id).expect("readback"), words(&store[id]));
                let wrong = got.iter().zip(want).position(|(a, b)| a != b);
                assert!(
                    wrong.is_none(),
                    "{n_vocab}, {caps:?}, step {n}: {}{wrong:?}\n{got:?}\n{want:?}\n{slots:?}",
                    NAMES[id]
                );
            }
        }
    }
}

fn words(d: &Data) -> &[u32] {
    match d {
        Data::F32(v) => bytemuck::cast_slice(v),
        Data::U32(v) => v,
        Data::Matrix(_) => unreachable!("no matrix here"),
    }
}

fn small_vocabularies() {
    for n_vocab in [1, 2, 31, 65] {
        compare(64, n_vocab, 1, 40);
    }
}

fn a_list_of_candidates_fits_or_not() {
    compare(64, 3001, 64, 200);
    compare(256, 3001, 7, 200);
}

/// More than one round of the penalty's bitmap.
fn large_vocabulary() {
    compare(256, 151_936, 64, 6);
}

fn main() {
    common::run(vec![
        gpu_trial("small_vocabularies", small_vocabularies),
        gpu_trial(
            "a_list_of_candidates_fits_or_not",
            a_list_of_candidates_fits_or_not,
        ),
        common::gpu_trial_but_for(
            Limits::Low,
            "five rows of these logits are no binding",
            "large_vocabulary",
            large_vocabulary,
        ),
    ]);
}

// What the sampling kernels know of one sequence slot (kernel::params::Slot on the host).
struct Slot {
    temp: f32,          // below 1e-6: the largest logit
    top_k: u32,         // 0: off
    top_p: f32,         // 1: off
    min_p: f32,         // 0: off
    seed_lo: u32,
    seed_hi: u32,
    repeat_penalty: f32, // 1: off
    repeat_last_n: u32,
    count: u32,         // tokens sampled so far
    hist_len: u32,      // tokens of the sequence so far, prompt included
    pad0: u32,
    pad1: u32,
    pad2: u32,
    pad3: u32,
    pad4: u32,
    pad5: u32,
}

//! How fast the device multiplies and adds: the yardstick for everything bound by arithmetic.

use std::sync::Arc;
use std::time::Instant;

use super::device::Gpu;
use super::program::GpuProgram;
use crate::Result;
use crate::kernel::Shader;
use crate::kernel::params::PeakFma;
use crate::plan::{Batch, Bind, Buffer, Dim, Init, Pool, Program, Step, Which};

/// A run this long is timed well, in seconds.
const LONG: f64 = 0.02;
/// Workgroups of one dispatch at most.
const GROUPS: u32 = 4096;

impl Gpu {
    /// Floating-point operations per second (two to a multiply-add) of kernel `peak_fma`, the best of
    /// five runs that each take about 20 ms. It makes a pipeline and buffers of its own.
    pub fn peak_flops(self: &Arc<Gpu>) -> Result<f64> {
        let (lanes, rounds) = match self.caps.software {
            true => (64, 256),
            false => (256.min(self.caps.max_lanes), 4096),
        };
        // Each lane leaves a sum, and all of them are one binding.
        let room = (self.caps.max_storage / 16 / u64::from(lanes)).min(GROUPS.into()) as u32;
        let most = room.min(self.caps.max_grid);
        let one = program(lanes, rounds, most);
        let program = GpuProgram::load(self.clone(), one, &mut |_| ())?;
        let time = |groups: u32| -> Result<f64> {
            let batch = Batch {
                cols: groups,
                kv_len: 1,
            };
            let commands = program.record(Which::Decode, std::iter::once(batch), |_| ());
            let start = Instant::now();
            self.submit(commands);
            self.wait()?;
            Ok(start.elapsed().as_secs_f64())
        };
        time(1)?; // drivers compile at the first dispatch
        let mut groups = 16;
        while groups < most && time(groups)? < LONG {
            groups *= 2;
        }
        let mut best = f64::MAX;
        for _ in 0..5 {
            best = best.min(time(groups)?);
        }
        Ok(operations(lanes, rounds) * f64::from(groups.min(most)) / best)
    }
}

/// Operations of one workgroup: 96 multiply-adds per lane and round.
fn operations(lanes: u32, rounds: u32) -> f64 {
    2.0 * 96.0 * f64::from(rounds) * f64::from(lanes)
}

/// One step whose grid has as many workgroups as the batch has columns.
fn program(lanes: u32, rounds: u32, most: u32) -> Program {
    let buffer = |name: &str, bytes: u64, init| Buffer {
        name: name.into(),
        pool: Pool::Scratch,
        bytes,
        texture: None,
        layers: 0,
        init,
    };
    let n = lanes * most;
    let factors = Init::F32(Arc::new(vec![0.75, 0.5, 0.0, 0.0]));
    let buffers = vec![
        buffer("peak_fma factors", 16, factors),
        buffer("peak_fma sums", 16 * u64::from(n), Init::Zero),
    ];
    let bind = |name, buf| Bind {
        name,
        buf,
        offset: 0,
    };
    let shader = Shader {
        kernel: "peak_fma",
        slots: vec![],
        overrides: vec![("WG", lanes)],
    };
    let groups = Dim::Columns {
        first: 0,
        max: most,
    };
    let step = Step::new(
        "peak_fma".into(),
        shader,
        PeakFma { n, rounds },
        vec![bind("x", 0), bind("out", 1)],
        [groups, Dim::Fixed(1), Dim::Fixed(1)],
    );
    Program::alone(buffers, vec![step])
}

//! Runs a whole program on the CPU twins: the same steps, parameters, bindings and grids as on a
//! device, on buffers in host memory.

use std::sync::{Arc, Mutex};

use super::{Binds, Data, Rows, twin};
use crate::model::matrix::SharedMatrix;
use crate::plan::{Batch, BufId, Buffer, Init, Program, Step, Which};
use crate::{Error, Result};

/// A shard of a matrix, read from the file and not from its repacked form.
struct Shard {
    matrix: SharedMatrix,
    first: usize,
    rows: usize,
    fault: Fault,
}

/// The first row that could not be read, and why. Twins have no way to fail.
type Fault = Arc<Mutex<Option<Error>>>;

impl Rows for Shard {
    fn rows(&self) -> usize {
        self.rows
    }

    fn row(&self, r: usize, out: &mut Vec<f32>) {
        assert!(r < self.rows, "row past the end of a shard");
        if let Err(e) = self.matrix.decode_row(self.first + r, out) {
            let mut fault = self.fault.lock().unwrap_or_else(|e| e.into_inner());
            fault.get_or_insert(e);
        }
    }
}

/// A program and its buffers in host memory.
pub struct Runner {
    program: Arc<Program>,
    store: Vec<Data>,
    fault: Fault,
}

impl Runner {
    /// Buffers with their first contents.
    pub fn new(program: Arc<Program>) -> Runner {
        let fault = Fault::default();
        let store = program.buffers.iter().map(|b| data(b, &fault)).collect();
        Runner {
            program,
            store,
            fault,
        }
    }

    /// An error if a row of weights could not be read since this was last asked: what was computed with
    /// it means nothing.
    pub fn check(&self) -> Result<()> {
        let fault = self.fault.lock().unwrap_or_else(|e| e.into_inner()).take();
        fault.map_or(Ok(()), Err)
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Runs a plan for a batch.
    pub fn run(&mut self, which: Which, batch: Batch) {
        let program = self.program.clone();
        for step in program.steps(which) {
            self.step(step, batch);
        }
    }

    /// Runs one step; whether it had anything to do.
    pub fn step(&mut self, step: &Step, batch: Batch) -> bool {
        let Some(grid) = step.grid(batch) else {
            return false;
        };
        let list: Vec<_> = step
            .binds
            .iter()
            .map(|b| (b.name, b.buf, (b.offset / 4) as usize))
            .collect();
        twin(step.shader.kernel)(&step.params, grid, &mut Binds::new(&mut self.store, &list));
        true
    }

    /// The words of a buffer.
    pub fn words(&self, id: BufId) -> &[u32] {
        match &self.store[id] {
            Data::U32(v) => v,
            Data::F32(v) => bytemuck::cast_slice(v),
            Data::Matrix(_) => panic!("{} is a matrix", self.program.buffers[id].name),
        }
    }

    /// Writes words from a byte offset on.
    pub fn write(&mut self, id: BufId, byte: u64, words: &[u32]) {
        let at = (byte / 4) as usize;
        match &mut self.store[id] {
            Data::U32(v) => v[at..at + words.len()].copy_from_slice(words),
            Data::F32(v) => v[at..at + words.len()].copy_from_slice(bytemuck::cast_slice(words)),
            Data::Matrix(_) => panic!("{} is a matrix", self.program.buffers[id].name),
        }
    }
}

fn data(b: &Buffer, fault: &Fault) -> Data {
    let n = (b.bytes / 4) as usize;
    match &b.init {
        Init::Zero => Data::U32(vec![0; n]),
        Init::U32(v) => {
            let mut v = v.to_vec();
            v.resize(n, 0);
            Data::U32(v)
        }
        Init::F32(v) => {
            let mut v = v.to_vec();
            v.resize(n, 0.0);
            Data::F32(v)
        }
        Init::Rows {
            matrix,
            first,
            rows,
        } => Data::Matrix(Arc::new(Shard {
            matrix: matrix.clone(),
            first: *first,
            rows: *rows,
            fault: fault.clone(),
        })),
    }
}

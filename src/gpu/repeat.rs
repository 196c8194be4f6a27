//! Uploads matrices whose rows repeat (models that exist by shape only): one period goes over the
//! host, and the device copies it on until the buffer is full. Textures, which only software devices
//! use, are filled by the host like any other.

use rayon::prelude::*;
use wgpu::BufferUsages as Usage;

use super::Encoder;
use super::device::Gpu;
use super::program::Resource;
use crate::Result;
use crate::model::Matrix;
use crate::model::matrix::RowBytes;
use crate::plan::{Buffer, Init, Pool};

/// Bytes the device copies at a time; a longer period is copied whole.
const COPY: u64 = 4 << 20;

/// Fills all buffers whose matrix's rows repeat.
pub fn upload(
    gpu: &Gpu,
    buffers: &[Buffer],
    resources: &[Resource],
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let Some(staging) = Staging::new(gpu, buffers)? else {
        return Ok(());
    };
    for (b, r) in buffers.iter().zip(resources) {
        if let Init::Rows {
            matrix,
            first,
            rows,
        } = &b.init
            && applies(b)
        {
            upload_rows(gpu, &staging, r, matrix, *first, *rows, done)?;
        }
    }
    Ok(())
}

/// Whether a buffer is filled here.
pub fn applies(b: &Buffer) -> bool {
    match &b.init {
        Init::Rows { matrix, first, .. } => b.texture.is_none() && matrix.period(*first).is_some(),
        _ => false,
    }
}

/// Bytes of staging memory that [`upload`] asks for, whatever the number of buffers.
pub fn staging_bytes(buffers: &[Buffer]) -> u64 {
    staging_sizes(buffers).iter().sum()
}

/// Bytes of the longest period, and of the most that is laid side by side.
fn staging_sizes(buffers: &[Buffer]) -> [u64; 2] {
    let [mut one, mut many] = [0, 0];
    for b in buffers.iter().filter(|b| applies(b)) {
        let Init::Rows {
            matrix,
            first,
            rows,
        } = &b.init
        else {
            continue;
        };
        let row_bytes = matrix.row_vec4s() as u64 * 16;
        for (_, n, period) in runs(matrix, *first, *rows) {
            let period = period as u64 * row_bytes;
            one = period.max(one);
            many = many.max(times(n as u64 * row_bytes, period) * period);
        }
    }
    [one, many]
}

/// What periods pass through, one run of rows after the other.
struct Staging {
    /// A period.
    one: wgpu::Buffer,
    /// The same period several times.
    many: wgpu::Buffer,
}

impl Staging {
    /// Room for every run of rows; `None` if there is none.
    fn new(gpu: &Gpu, buffers: &[Buffer]) -> Result<Option<Staging>> {
        let sizes = staging_sizes(buffers);
        if sizes[0] == 0 {
            return Ok(None);
        }
        let usage = Usage::COPY_SRC | Usage::COPY_DST;
        let make = |name, bytes| gpu.buffer_of(Pool::Staging, name, bytes, usage);
        Ok(Some(Staging {
            one: make("period", sizes[0])?,
            many: make("periods", sizes[1])?,
        }))
    }
}

/// The runs of rows `first` to `first + rows` that repeat: first row, rows, rows of a period.
fn runs(m: &Matrix, first: usize, rows: usize) -> Vec<(usize, usize, usize)> {
    let mut runs = Vec::new();
    let mut row = first;
    while row < first + rows {
        let (period, end) = m.period(row).expect("rows that repeat");
        let n = end.min(first + rows) - row;
        runs.push((row, n, period.min(n)));
        row += n;
    }
    runs
}

/// How often a period of so many bytes is laid side by side to fill `bytes`.
fn times(bytes: u64, period: u64) -> u64 {
    COPY.min(bytes).div_ceil(period)
}

/// Fills a buffer with rows `first` to `first + rows` of a matrix of which [`Matrix::period`] knows, and
/// with the multipliers behind them. `done` is told the bytes that a file would have had of them.
fn upload_rows(
    gpu: &Gpu,
    staging: &Staging,
    r: &Resource,
    m: &Matrix,
    first: usize,
    rows: usize,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let Resource::Buffer(buffer) = r else {
        unreachable!("textures take the other way")
    };
    let row_words = m.row_vec4s() * 4;
    let row_bytes = row_words as u64 * 4;
    let mut mult = Vec::with_capacity(rows.next_multiple_of(4));
    let mut read = RowBytes::default();
    for (row, n, period) in runs(m, first, rows) {
        m.read(row..row + period, &mut read)?;
        let mut words = vec![0u32; period * row_words];
        let one: Vec<f32> = words
            .par_chunks_mut(row_words)
            .enumerate()
            .map(|(i, out)| m.repack_row(row + i, &read, out))
            .collect::<Result<_>>()?;
        mult.extend(one.iter().cycle().take(n));
        let begin = (row - first) as u64 * row_bytes;
        let end = begin + n as u64 * row_bytes;
        copy(gpu, staging, buffer, &words, begin, end)?;
        done(n as u64 * m.ty.row_bytes(m.k) as u64);
    }
    mult.resize(rows.next_multiple_of(4), 0.0);
    gpu.queue
        .write_buffer(buffer, rows as u64 * row_bytes, bytemuck::cast_slice(&mult));
    gpu.queue.submit([]);
    gpu.wait()
}

/// Has the device fill the bytes `begin..end` of a buffer with words that repeat.
fn copy(
    gpu: &Gpu,
    staging: &Staging,
    buffer: &wgpu::Buffer,
    words: &[u32],
    begin: u64,
    end: u64,
) -> Result<()> {
    let period = words.len() as u64 * 4;
    let Staging { one, many } = staging;
    gpu.queue.write_buffer(one, 0, bytemuck::cast_slice(words));
    // Short periods are laid side by side first, so that there are few copies.
    let times = times(end - begin, period);
    let mut encoder: Encoder = gpu.device.create_command_encoder(&Default::default());
    for i in 0..times {
        encoder.copy_buffer_to_buffer(one, 0, many, i * period, Some(period));
    }
    let mut at = begin;
    while at < end {
        let n = (times * period).min(end - at);
        encoder.copy_buffer_to_buffer(many, 0, buffer, at, Some(n));
        at += n;
    }
    gpu.queue.submit([encoder.finish()]);
    gpu.wait()
}

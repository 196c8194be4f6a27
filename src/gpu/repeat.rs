//! Uploads matrices whose rows repeat (models that exist by shape only): one period goes over the
//! host, and the device copies it on until the buffer or texture is full.

use rayon::prelude::*;
use wgpu::BufferUsages as Usage;

use super::Encoder;
use super::device::Gpu;
use super::program::Resource;
use super::upload::write;
use crate::Result;
use crate::model::Matrix;

/// Bytes the device copies at a time; a longer period is copied whole.
const COPY: u64 = 4 << 20;

/// Fills `r` with rows `first` to `first + rows` of a matrix of which [`Matrix::period`] knows, and
/// with the multipliers behind them. `done` is told the bytes that a file would have had of them.
pub(super) fn upload_rows(
    gpu: &Gpu,
    r: &Resource,
    m: &Matrix,
    first: usize,
    rows: usize,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let row_words = m.row_vec4s() * 4;
    let row_bytes = row_words as u64 * 4;
    // A texture is written in whole lines: what a run leaves of its last one begins the next.
    let line = match r {
        Resource::Buffer(_) => 16,
        Resource::Texture { shift, .. } => 16u64 << shift,
    };
    let mut mult = Vec::with_capacity(rows.next_multiple_of(4));
    let mut rest: Vec<u32> = Vec::new();
    let mut row = first;
    while row < first + rows {
        let (period, end) = m.period(row).expect("rows that repeat");
        let n = end.min(first + rows) - row;
        let period = period.min(n);
        let mut words = vec![0u32; period * row_words];
        let one: Vec<f32> = words
            .par_chunks_mut(row_words)
            .enumerate()
            .map(|(i, out)| (m.ty.repack)(m.row(row + i), m.k, out))
            .collect();
        mult.extend(one.iter().cycle().take(n));

        // Where this run begins and ends, in bytes of the buffer.
        let begin = (row - first) as u64 * row_bytes;
        let end = begin + n as u64 * row_bytes;
        let word = |at: u64| words[((at - begin) / 4) as usize % words.len()];
        let words_between = |a: u64, b: u64| (a..b).step_by(4).map(word);
        let lines = (begin.next_multiple_of(line).min(end), end / line * line);
        rest.extend(words_between(begin, lines.0));
        if lines.0 < lines.1 {
            write(gpu, r, lines.0 - rest.len() as u64 * 4, &rest);
            copy(gpu, r, &words, begin, lines, line)?;
            rest = words_between(lines.1, end).collect();
        } else if lines.0 < end {
            rest.extend(words_between(lines.0, end));
        }
        done(n as u64 * m.ty.row_bytes(m.k) as u64);
        row += n;
    }
    let at = rows as u64 * row_bytes - rest.len() as u64 * 4;
    mult.resize(rows.next_multiple_of(4), 0.0);
    rest.extend(bytemuck::cast_slice::<f32, u32>(&mult));
    rest.resize(rest.len().next_multiple_of(line as usize / 4), 0);
    write(gpu, r, at, &rest);
    gpu.queue.submit([]);
    gpu.wait()
}

/// Has the device fill the bytes `lines` (whole lines) of `r` with the words that repeat from byte
/// `begin` on.
fn copy(
    gpu: &Gpu,
    r: &Resource,
    words: &[u32],
    begin: u64,
    lines: (u64, u64),
    line: u64,
) -> Result<()> {
    let period = words.len() as u64 * 4;
    let one = gpu.buffer("period", period, Usage::COPY_SRC | Usage::COPY_DST)?;
    gpu.queue.write_buffer(&one, 0, bytemuck::cast_slice(words));
    // As often as it takes for a copy of whole lines to begin anywhere in the first period.
    let times = (COPY.max(line).min(lines.1 - lines.0)).div_ceil(period) + 1;
    let many = gpu.buffer("periods", times * period, Usage::COPY_SRC | Usage::COPY_DST)?;
    let mut encoder: Encoder = gpu.device.create_command_encoder(&Default::default());
    for i in 0..times {
        encoder.copy_buffer_to_buffer(&one, 0, &many, i * period, Some(period));
    }
    let mut at = lines.0;
    while at < lines.1 {
        let from = (at - begin) % period;
        let n = ((times * period - from) / line * line).min(lines.1 - at);
        match r {
            Resource::Buffer(b) => encoder.copy_buffer_to_buffer(&many, from, b, at, Some(n)),
            Resource::Texture { texture, shift, .. } => encoder.copy_buffer_to_texture(
                wgpu::TexelCopyBufferInfo {
                    buffer: &many,
                    layout: wgpu::TexelCopyBufferLayout {
                        offset: from,
                        bytes_per_row: Some(line as u32),
                        rows_per_image: None,
                    },
                },
                wgpu::TexelCopyTextureInfo {
                    texture,
                    mip_level: 0,
                    origin: wgpu::Origin3d {
                        x: 0,
                        y: (at / line) as u32,
                        z: 0,
                    },
                    aspect: wgpu::TextureAspect::All,
                },
                wgpu::Extent3d {
                    width: 1 << shift,
                    height: (n / line) as u32,
                    depth_or_array_layers: 1,
                },
            ),
        }
        at += n;
    }
    gpu.queue.submit([encoder.finish()]);
    gpu.wait()
}

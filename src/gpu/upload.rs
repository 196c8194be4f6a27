//! Fills the buffers of a program: small constants as they are, matrices repacked row by row on all
//! cores in bounded pieces, so that no copy of a whole tensor is ever held.

use rayon::prelude::*;

use super::device::Gpu;
use super::program::Resource;
use super::repeat;
use crate::Result;
use crate::model::Matrix;
use crate::model::matrix::TILE_ROWS;
use crate::plan::{Buffer, Init};

/// Words repacked before they are handed to the device (16 MiB).
const PIECE: usize = 4 << 20;

/// Writes a buffer's first contents. `done` is told the file bytes taken care of.
pub fn upload(gpu: &Gpu, b: &Buffer, r: &Resource, done: &mut dyn FnMut(u64)) -> Result<()> {
    match &b.init {
        Init::Zero => {}
        Init::F32(v) => write(gpu, r, 0, bytemuck::cast_slice(v)),
        Init::U32(v) => write(gpu, r, 0, bytemuck::cast_slice(v)),
        Init::Rows {
            matrix,
            first,
            rows,
        } if b.texture.is_none() && matrix.period(*first).is_some() => {
            return repeat::upload_rows(gpu, r, matrix, *first, *rows, done);
        }
        Init::Rows {
            matrix,
            first,
            rows,
        } => return upload_rows(gpu, b, r, matrix, *first, *rows, done),
    }
    Ok(())
}

fn upload_rows(
    gpu: &Gpu,
    b: &Buffer,
    r: &Resource,
    m: &Matrix,
    first: usize,
    rows: usize,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let row_words = m.row_vec4s() * 4;
    // Rows that are laid out together.
    let tile = if b.texture.is_some() { TILE_ROWS } else { 1 };
    let per_piece = (PIECE / row_words / tile).max(1) * tile;
    // A texture is written in whole lines, so what is left of a piece waits for the next.
    let line = b.texture.map_or(4, |shift| 4usize << shift);
    let mut mult = vec![0f32; rows.next_multiple_of(4)];
    let mut words: Vec<u32> = Vec::with_capacity(per_piece * row_words + 2 * line);
    let mut at = 0u64;
    let mut flush = |words: &mut Vec<u32>, whole: bool| -> Result<()> {
        if whole {
            words.resize(words.len().next_multiple_of(line), 0);
        }
        let n = words.len() / line * line;
        write(gpu, r, at, &words[..n]);
        at += n as u64 * 4;
        words.drain(..n);
        // Lets the device take the piece and free its staging memory.
        gpu.queue.submit([]);
        gpu.wait()
    };
    for start in (0..rows).step_by(per_piece) {
        let n = per_piece.min(rows - start);
        let old = words.len();
        words.resize(old + n.next_multiple_of(tile) * row_words, 0);
        words[old..]
            .par_chunks_mut(tile * row_words)
            .zip(mult[start..start + n].par_chunks_mut(tile))
            .enumerate()
            .for_each(|(i, (out, mult))| {
                let first = first + start + i * tile;
                if tile == 1 {
                    m.repack(first, out, mult);
                } else {
                    m.repack_tile(first, out, mult);
                }
            });
        flush(&mut words, false)?;
        done(n as u64 * (m.k / m.ty.block * m.ty.bytes) as u64);
    }
    words.extend(bytemuck::cast_slice::<f32, u32>(&mult));
    flush(&mut words, true)
}

/// Writes words from a byte offset on (whole lines, for a texture).
pub(super) fn write(gpu: &Gpu, r: &Resource, at: u64, words: &[u32]) {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    match r {
        Resource::Buffer(b) => gpu.queue.write_buffer(b, at, bytes),
        Resource::Texture { texture, shift, .. } => {
            let line = 16u64 << shift;
            let lines = (bytes.len() as u64 / line) as u32;
            if lines == 0 {
                return;
            }
            gpu.queue.write_texture(
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
                bytes,
                wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(line as u32),
                    rows_per_image: None,
                },
                wgpu::Extent3d {
                    width: 1 << shift,
                    height: lines,
                    depth_or_array_layers: 1,
                },
            );
        }
    }
}

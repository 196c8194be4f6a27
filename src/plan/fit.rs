//! The program for a wish where a device's bindings are small: matrices are cut by rows anyway
//! (`product.rs`), activations get narrower prompt chunks; what can be cut no further is an error
//! that names buffer and limit, before anything is allocated.

use super::build::build;
use super::product::{fitting_rows, shard_rows};
use super::sizes::Wish;
use super::{Buffer, Pool, Program, Sizes};
use crate::kernel::Caps;
use crate::model::Model;
use crate::{Error, Result};

/// The program for a wish, with the widest prompt chunk whose buffers all fit their bindings.
pub fn fit(model: &Model, caps: &Caps, wish: Wish) -> Result<Program> {
    for m in model.weights.matrices() {
        let (rows, limit) = fitting_rows(caps, &m);
        if rows == 0 {
            return Err(Error::RowTooLarge {
                matrix: m.label.clone(),
                bytes: m.row_vec4s() as u64 * 16,
                limit,
            });
        }
        debug_assert!(shard_rows(caps, &m) <= rows);
    }
    let mut sizes = Sizes::fit(&model.hyper, caps, wish)?;
    loop {
        let program = build(model, caps, sizes);
        let Some(b) = program.buffers.iter().find(|b| !fits(b, caps)) else {
            return Ok(program);
        };
        let narrower = match b.pool {
            Pool::Scratch => sizes.narrower(caps),
            _ => None,
        };
        sizes = narrower.ok_or_else(|| too_large(b, caps))?;
    }
}

/// Whether a buffer can be bound whole, a texture made.
fn fits(b: &Buffer, caps: &Caps) -> bool {
    match b.texture {
        None => b.bytes <= caps.max_storage,
        Some(shift) => {
            // Sides are powers of two, so lines are no longer than that either.
            let lines = (b.bytes >> (shift + 4)) / u64::from(b.layers.max(1));
            b.layers <= caps.max_layers && lines <= u64::from(caps.max_texture)
        }
    }
}

fn too_large(b: &Buffer, caps: &Caps) -> Error {
    Error::BufferTooLarge {
        name: b.name.clone(),
        bytes: b.bytes,
        what: match b.texture {
            None => "max_storage_buffer_binding_size",
            Some(_) => "max_texture_dimension_2d",
        },
        limit: match b.texture {
            None => caps.max_storage,
            Some(_) => caps.max_texture.into(),
        },
    }
}

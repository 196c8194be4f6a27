//! Fills the buffers of a program: small constants as they are, matrices in pieces. Every core
//! repacks pieces of its own straight into mapped staging memory, while the device copies those that
//! are ready. The staging slots go round, so their number bounds the memory: no copy of a whole
//! tensor is ever held.

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use super::device::{Gpu, add};
use super::program::{Loading, Resource};
use super::repeat;
use crate::model::Matrix;
use crate::model::matrix::{RowBytes, TILE_ROWS};
use crate::plan::{BufId, Buffer, Init, Pool};
use crate::{Error, Result};

/// Bytes of a piece, as far as whole texture lines allow.
const PIECE: usize = 2 << 20;
/// Bytes all staging slots may have together.
const STAGING: usize = 64 << 20;

/// Rows of a matrix that are repacked together: whole lines of their texture, but for the last piece
/// of a buffer, behind which the row multipliers follow.
pub struct Piece<'a> {
    buffer: BufId,
    matrix: &'a Matrix,
    /// Row of the matrix that is the buffer's first.
    base: usize,
    /// Rows of the buffer.
    rows: Range<usize>,
    /// Rows that are laid out together.
    tile: usize,
    last: bool,
    /// Bytes to copy: records, and behind the last ones multipliers and what fills up the line.
    bytes: usize,
}

impl Piece<'_> {
    /// Bytes of its row records.
    fn records(&self) -> usize {
        self.rows.len().next_multiple_of(self.tile) * self.matrix.row_vec4s() * 16
    }
}

/// All matrices of a program that are repacked row by row, cut into pieces.
pub fn pieces(buffers: &[Buffer]) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    for (buffer, b) in buffers.iter().enumerate() {
        let Init::Rows {
            matrix,
            first,
            rows,
        } = &b.init
        else {
            continue;
        };
        if repeat::applies(b) {
            continue;
        }
        let record = matrix.row_vec4s() * 16;
        let tile = if b.texture.is_some() { TILE_ROWS } else { 1 };
        let line = 16 << b.texture.unwrap_or(0); // what copies must be whole multiples of
        let step = tile * line / gcd(line, tile * record);
        let per = (PIECE / record / step).max(1) * step;
        for start in (0..*rows).step_by(per) {
            let end = rows.min(&(start + per)).to_owned();
            let last = end == *rows;
            let tail = if last {
                b.bytes as usize - rows.next_multiple_of(tile) * record
            } else {
                0
            };
            all.push(Piece {
                buffer,
                matrix,
                base: *first,
                rows: start..end,
                tile,
                last,
                bytes: (end - start).next_multiple_of(tile) * record + tail,
            });
        }
    }
    all
}

/// Threads that repack.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Staging slots for these pieces, and the bytes of one.
fn slots(pieces: &[Piece], workers: usize) -> (usize, usize) {
    let slot = pieces.iter().map(|p| p.bytes).max().unwrap_or(16);
    let slots = (STAGING / slot).clamp(2, workers + 2).min(pieces.len());
    (slots, slot)
}

/// Bytes of staging memory that a load of these buffers asks for.
pub fn staging_bytes(buffers: &[Buffer]) -> u64 {
    let (slots, slot) = slots(&pieces(buffers), workers());
    (slots * slot) as u64 + repeat::staging_bytes(buffers)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Writes the first contents of everything that is no matrix.
pub fn constants(gpu: &Gpu, buffers: &[Buffer], resources: &[Resource]) {
    for (b, r) in buffers.iter().zip(resources) {
        let bytes: &[u8] = match &b.init {
            Init::F32(v) => bytemuck::cast_slice(v),
            Init::U32(v) => bytemuck::cast_slice(v),
            Init::Zero | Init::Rows { .. } => continue,
        };
        match r {
            Resource::Buffer(buffer) => gpu.queue.write_buffer(buffer, 0, bytes),
            Resource::Texture { texture, shift, .. } => gpu.queue.write_texture(
                texture.as_image_copy(),
                bytes,
                wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(16 << shift),
                    rows_per_image: Some(texture.height()),
                },
                texture.size(),
            ),
        }
    }
}

/// What the loading thread hears from the others.
pub enum Event {
    /// A piece lies in a staging slot; the multipliers of its rows.
    Repacked(usize, wgpu::Buffer, Vec<f32>),
    /// Steps bound to their pipelines, of how many.
    Bound(u32, u32),
    /// Something failed that ends the load.
    Failed(Error),
    /// All pipelines are made and all steps bound; or else why not is told by whoever made them.
    Compiled(bool),
}

/// What a worker uses again for every piece.
#[derive(Default)]
struct Scratch {
    rows: RowBytes,
    tile: Vec<u32>,
}

/// Staging slots that are mapped and free; `None` ends a worker.
type Free = Option<wgpu::Buffer>;

/// The pieces and what the threads share while they load.
pub struct Upload<'a> {
    gpu: &'a Gpu,
    resources: &'a [Resource],
    pieces: Vec<Piece<'a>>,
    next: AtomicUsize,
    free: Mutex<Receiver<Free>>,
    give: Sender<Free>,
    slots: usize,
    slot_bytes: u64,
}

impl<'a> Upload<'a> {
    /// Prepares an upload by `workers` threads.
    pub fn new(
        gpu: &'a Gpu,
        resources: &'a [Resource],
        pieces: Vec<Piece<'a>>,
        workers: usize,
    ) -> Upload<'a> {
        let (give, free) = std::sync::mpsc::channel();
        let (slots, slot) = slots(&pieces, workers);
        Upload {
            gpu,
            resources,
            slots,
            pieces,
            next: AtomicUsize::new(0),
            free: Mutex::new(free),
            give,
            slot_bytes: slot as u64,
        }
    }

    /// Repacks pieces until none is left or the load has ended.
    pub fn work(&self, tell: &Sender<Event>) {
        let mut scratch = Scratch::default();
        loop {
            // A slot first and then a number: pieces are begun in order, so the last piece of a
            // buffer only ever waits for pieces that have slots.
            let taken = {
                let free = self.free.lock().unwrap_or_else(|e| e.into_inner());
                match free.recv() {
                    Ok(Some(slot)) => Some((slot, self.next.fetch_add(1, Ordering::Relaxed))),
                    _ => None,
                }
            };
            let Some((slot, number)) = taken else { return };
            let Some(piece) = self.pieces.get(number) else {
                return;
            };
            // A panic here ends the load, and not the thread alone that others wait for.
            let repacked =
                catch_unwind(AssertUnwindSafe(|| self.repack(piece, &slot, &mut scratch)));
            let event = match repacked {
                Ok(Ok(mult)) => Event::Repacked(number, slot, mult),
                Ok(Err(e)) => Event::Failed(e),
                Err(panic) => {
                    let _ = tell.send(Event::Failed(self.gpu.stuck("a repacking thread".into())));
                    resume_unwind(panic);
                }
            };
            if tell.send(event).is_err() {
                return;
            }
        }
    }

    fn repack(&self, p: &Piece, slot: &wgpu::Buffer, s: &mut Scratch) -> Result<Vec<f32>> {
        let (m, tile) = (p.matrix, &mut s.tile);
        m.read(p.base + p.rows.start..p.base + p.rows.end, &mut s.rows)?;
        let bytes = p.tile * m.row_vec4s() * 16;
        tile.resize(bytes / 4, 0);
        let mut view = self.gpu.mapped(slot, 0..p.records() as u64)?;
        let mut mult = vec![0.0; p.rows.len()];
        // Mapped memory may be uncached: it is written once, in order, and never read.
        for (i, mult) in mult.chunks_mut(p.tile).enumerate() {
            let first = p.base + p.rows.start + i * p.tile;
            if p.tile == 1 {
                m.repack(first, &s.rows, tile, mult)?;
            } else {
                m.repack_tile(first, &s.rows, tile, mult)?;
            }
            let out = i * bytes..(i + 1) * bytes;
            view.slice(out).copy_from_slice(bytemuck::cast_slice(tile));
        }
        Ok(mult)
    }

    /// Hands pieces to the device as they come, until all are there or the others failed. `progress`
    /// hears the file bytes of each. Whether the others are done, too.
    pub fn run(&self, told: &Receiver<Event>, progress: &mut dyn FnMut(Loading)) -> Result<bool> {
        for i in 0..self.slots {
            self.give(Some(self.gpu.staging_slot(i, self.slot_bytes)?));
        }
        let mut copies = Copies {
            upload: self,
            waiting: HashMap::new(),
            batch: Vec::new(),
            flying: Default::default(),
        };
        let (mut left, mut compiled) = (self.pieces.len(), false);
        while left > 0 {
            let event = match told.try_recv() {
                Ok(event) => event,
                Err(_) => {
                    copies.submit();
                    match copies.flying.pop_front() {
                        // Nothing to do but to get the oldest slots back.
                        Some(index) => {
                            self.gpu.wait_for(Some(index))?;
                            continue;
                        }
                        None => told.recv().map_err(|e| self.gpu.stuck(e.to_string()))?,
                    }
                }
            };
            match event {
                Event::Repacked(number, slot, mult) => {
                    let p = &self.pieces[number];
                    let row = p.matrix.k / p.matrix.ty.block * p.matrix.ty.bytes;
                    progress(Loading::Weights((p.rows.len() * row) as u64));
                    copies.take(p, slot, mult)?;
                    left -= 1;
                }
                Event::Bound(n, of) => progress(Loading::Steps(n, of)),
                Event::Compiled(true) => compiled = true,
                Event::Compiled(false) => return Ok(true),
                Event::Failed(e) => return Err(e),
            }
        }
        copies.submit();
        let last = copies.flying.pop_back();
        last.map_or(Ok(()), |index| self.gpu.wait_for(Some(index)))?;
        Ok(compiled)
    }

    /// Ends the workers, also those that wait for a slot.
    pub fn end(&self, workers: usize) {
        self.next.store(self.pieces.len(), Ordering::Relaxed);
        for _ in 0..workers {
            self.give(None);
        }
    }

    fn give(&self, slot: Free) {
        let _ = self.give.send(slot);
    }
}

/// What is known of a buffer of which pieces are missing.
#[derive(Default)]
struct Waiting<'a> {
    mult: Vec<f32>,
    rows: usize,
    /// Its last piece, which takes the multipliers of all rows with it.
    last: Option<(&'a Piece<'a>, wgpu::Buffer)>,
}

struct Copies<'a> {
    upload: &'a Upload<'a>,
    waiting: HashMap<BufId, Waiting<'a>>,
    batch: Vec<(&'a Piece<'a>, wgpu::Buffer)>,
    flying: std::collections::VecDeque<wgpu::SubmissionIndex>,
}

impl<'a> Copies<'a> {
    fn take(&mut self, p: &'a Piece<'a>, slot: wgpu::Buffer, mult: Vec<f32>) -> Result<()> {
        let w = self.waiting.entry(p.buffer).or_default();
        w.mult.resize(w.mult.len().max(p.rows.end), 0.0);
        w.mult[p.rows.clone()].copy_from_slice(&mult);
        w.rows += p.rows.len();
        if p.last {
            w.last = Some((p, slot));
        } else {
            self.batch.push((p, slot));
        }
        if let Some((last, _)) = &w.last
            && w.rows == last.rows.end
            && let Some(Waiting {
                mut mult,
                last: Some((p, slot)),
                ..
            }) = self.waiting.remove(&p.buffer)
        {
            let records = p.records();
            mult.resize((p.bytes - records) / 4, 0.0);
            let range = records as u64..p.bytes as u64;
            let mut view = self.upload.gpu.mapped(&slot, range)?;
            view.copy_from_slice(bytemuck::cast_slice(&mult));
            drop(view);
            self.batch.push((p, slot));
        }
        Ok(())
    }

    /// One submit for all pieces that are ready; their slots come back when the device is done.
    fn submit(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let gpu = self.upload.gpu;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (p, slot) in &self.batch {
            slot.unmap();
            copy(&mut encoder, p, slot, &self.upload.resources[p.buffer]);
        }
        add(&gpu.counts.submits, 1);
        self.flying.push_back(gpu.queue.submit([encoder.finish()]));
        for (_, slot) in self.batch.drain(..) {
            let (give, back) = (self.upload.give.clone(), slot.clone());
            slot.map_async(wgpu::MapMode::Write, .., move |mapped| {
                // A lost device is found by the wait for it.
                if mapped.is_ok() {
                    let _ = give.send(Some(back));
                }
            });
        }
    }
}

fn copy(encoder: &mut wgpu::CommandEncoder, p: &Piece, slot: &wgpu::Buffer, r: &Resource) {
    let at = (p.rows.start * p.matrix.row_vec4s() * 16) as u64;
    let (texture, line) = match r {
        Resource::Buffer(b) => {
            return encoder.copy_buffer_to_buffer(slot, 0, b, at, p.bytes as u64);
        }
        Resource::Texture { texture, shift, .. } => (texture, 16u32 << shift),
    };
    encoder.copy_buffer_to_texture(
        wgpu::TexelCopyBufferInfo {
            buffer: slot,
            layout: wgpu::TexelCopyBufferLayout {
                offset: 0,
                bytes_per_row: Some(line),
                rows_per_image: None,
            },
        },
        wgpu::TexelCopyTextureInfo {
            texture,
            mip_level: 0,
            origin: wgpu::Origin3d {
                x: 0,
                y: (at / u64::from(line)) as u32,
                z: 0,
            },
            aspect: wgpu::TextureAspect::All,
        },
        wgpu::Extent3d {
            width: line / 16,
            height: (p.bytes / line as usize) as u32,
            depth_or_array_layers: 1,
        },
    );
}

impl Gpu {
    fn mapped(&self, slot: &wgpu::Buffer, range: Range<u64>) -> Result<wgpu::BufferViewMut> {
        let view = slot.get_mapped_range_mut(range);
        view.map_err(|e| self.stuck(e.to_string()))
    }

    /// A mapped staging buffer.
    fn staging_slot(&self, number: usize, bytes: u64) -> Result<wgpu::Buffer> {
        let name = format!("staging slot {number}");
        self.allocate(Pool::Staging, &name, bytes, || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(&name),
                size: bytes,
                usage: wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            })
        })
    }
}

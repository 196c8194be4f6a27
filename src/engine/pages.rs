//! Which page of the KV cache holds which positions of which slot. Pages come from one pool, in any
//! order, so sequences of different lengths share it without gaps.

use crate::plan::sizes::PAGE_LEN;

/// The page table of all slots, as the host sees it.
pub struct Pages {
    free: Vec<u32>,
    held: Vec<Vec<u32>>,
    per_slot: u32,
}

impl Pages {
    /// `slots` sequences of at most `per_slot` pages each.
    pub fn new(slots: u32, per_slot: u32) -> Pages {
        Pages {
            free: (0..slots * per_slot).rev().collect(),
            held: vec![Vec::new(); slots as usize],
            per_slot,
        }
    }

    /// Makes sure the first `positions` of a slot have pages; the new ones as (index, page).
    pub fn reserve(&mut self, slot: u32, positions: u32) -> Vec<(u32, u32)> {
        let want = positions.div_ceil(PAGE_LEN).min(self.per_slot) as usize;
        let held = &mut self.held[slot as usize];
        let mut new = Vec::new();
        while held.len() < want {
            // The pool has a page for every place of every slot.
            let page = self
                .free
                .pop()
                .unwrap_or_else(|| unreachable!("the page pool is as large as all slots"));
            new.push((held.len() as u32, page));
            held.push(page);
        }
        new
    }

    /// The page behind the last of those that hold the first `positions` of a slot.
    pub fn end(&self, slot: u32, positions: u32) -> u32 {
        let used = positions.div_ceil(PAGE_LEN) as usize;
        let pages = self.held[slot as usize].iter().take(used);
        pages.max().map_or(0, |page| page + 1)
    }

    /// Gives back what lies wholly behind the first `positions` of a slot.
    pub fn release(&mut self, slot: u32, positions: u32) {
        let keep = positions.div_ceil(PAGE_LEN) as usize;
        let held = &mut self.held[slot as usize];
        while held.len() > keep {
            self.free.extend(held.pop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_shared_and_come_back() {
        let mut p = Pages::new(2, 2);
        assert_eq!(p.reserve(0, 1), [(0, 0)]);
        assert_eq!(p.reserve(1, PAGE_LEN + 1), [(0, 1), (1, 2)]);
        assert_eq!(p.reserve(0, PAGE_LEN), []);
        assert_eq!((p.end(1, PAGE_LEN), p.end(1, PAGE_LEN + 1)), (2, 3));
        assert_eq!((p.end(1, 0), p.end(0, u32::MAX)), (0, 1));
        p.release(1, PAGE_LEN);
        assert_eq!(p.reserve(0, 2 * PAGE_LEN), [(1, 2)]);
        p.release(0, 0);
        p.release(1, 0);
        assert_eq!(p.reserve(1, u32::MAX).len(), 2);
    }
}

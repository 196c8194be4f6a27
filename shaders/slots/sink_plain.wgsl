// slot sink = plain: results go where `emit` puts them.
const SQUARES = false;

// Rows `row` and `row + 1` of column `c`; the sum of their squares where anybody wants it.
fn put(c: u32, row: u32, v0: f32, v1: f32) -> f32 {
    emit(c, row, v0, v1);
    return 0.0;
}

fn close(row: u32, squares: Sums) {}

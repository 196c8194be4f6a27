// A matrix times the activations, one team of lanes per four rows (matvec, matvec2). The lanes of a team
// stride along k, block by block of 32 weights, and are summed at the end (slot team: a subgroup,
// or the whole workgroup through shared memory).
fn load32(row: u32, b: u32) -> Q32 {
    return quant_load32(row, b, P.nb, quant_group(row, b / 8u, P.nb));
}

// Workgroups that the matrix takes.
fn product_groups(t: Team) -> u32 {
    return (P.rows + 4u * t.count - 1u) / (4u * t.count);
}

// Workgroup `group` of them.
fn product(t: Team, group: u32, lid: u32) {
    let row = 4u * (group * t.count + t.index);
    // Rows past the end are computed as the last one and not written: barriers stay uniform.
    let last = P.rows - 1u;
    let r0 = row_at(min(row, last));
    let r1 = row_at(min(row + 1u, last));
    let r2 = row_at(min(row + 2u, last));
    let r3 = row_at(min(row + 3u, last));
    var acc = Tile();
    for (var b = t.lane; b < P.nb; b += t.size) {
        let q = Quad(load32(r0, b), load32(r1, b), load32(r2, b), load32(r3, b));
        acc = accumulate(acc, q, b * 8u, t.lane);
    }
    let scale = column_scales(t, lid);
    let s0 = total(finish(acc.r0), lid);
    let s1 = total(finish(acc.r1), lid);
    let s2 = total(finish(acc.r2), lid);
    let s3 = total(finish(acc.r3), lid);
    if t.lane == 0u && row < P.rows {
        close(row, put_rows(row, s0, s1, s2, s3, scale));
    }
}

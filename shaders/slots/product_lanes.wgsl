// A matrix times the activations, one lane per four rows (matvec_rows, matvec_rows2). Nothing is summed
// over lanes but squares for slots scale and sink: every lane reads its own rows while x is the same
// for all, which is what a software device likes.

// Workgroups that the matrix takes.
fn product_groups(t: Team) -> u32 {
    return (P.rows + 4u * WG - 1u) / (4u * WG);
}

// Workgroup `group` of them.
fn product(t: Team, group: u32, lid: u32) {
    if group >= product_groups(t) {
        return;
    }
    let row = 4u * (group * WG + lid);
    // Rows past the end are computed as the last one and not written: no lane leaves the subgroup.
    let last = P.rows - 1u;
    let r0 = row_at(min(row, last));
    let r1 = row_at(min(row + 1u, last));
    let r2 = row_at(min(row + 2u, last));
    let r3 = row_at(min(row + 3u, last));
    var acc = Tile();
    // Conditions at the end: a software device runs a loop's body once more, with no lane in it, if
    // they are at its beginning.
    let nb = P.nb + (row >> 31u); // plus 0, see `zero` in `emit`
    var b = 0u;
    loop {
        let g = b / 8u;
        let g0 = quant_group(r0, g, P.nb);
        let g1 = quant_group(r1, g, P.nb);
        let g2 = quant_group(r2, g, P.nb);
        let g3 = quant_group(r3, g, P.nb);
        let end = min(b + 8u, nb);
        loop {
            let q = Quad(
                quant_load32(r0, b, P.nb, g0),
                quant_load32(r1, b, P.nb, g1),
                quant_load32(r2, b, P.nb, g2),
                quant_load32(r3, b, P.nb, g3),
            );
            acc = accumulate(acc, q, b * 8u, lid);
            b++;
            continuing {
                break if b >= end;
            }
        }
        continuing {
            break if b >= nb;
        }
    }
    let scale = column_scales(t, lid);
    let squares = put_rows(row, finish(acc.r0), finish(acc.r1), finish(acc.r2), finish(acc.r3), scale);
    if SQUARES {
        let sum = total(squares, lid);
        if t.lane == 0u && row < P.rows {
            close(row, sum);
        }
    }
}

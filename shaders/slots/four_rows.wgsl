// What the products that hold four rows times COLS columns (slot columns) gather.

// A block of four neighbouring rows, and what a lane gathers for them (slot columns).
struct Quad {
    r0: Q32,
    r1: Q32,
    r2: Q32,
    r3: Q32,
}

struct Tile {
    r0: Acc,
    r1: Acc,
    r2: Acc,
    r3: Acc,
}

// One row times up to sixteen columns.
struct Sums {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

// Sums over a team, column by column.
fn total(v: Sums, lid: u32) -> Sums {
    var s = v;
    s.a = team_sum(s.a, lid);
    if COLS > 4u {
        s.b = team_sum(s.b, lid);
    }
    if COLS > 8u {
        s.c = team_sum(s.c, lid);
    }
    if COLS > 12u {
        s.d = team_sum(s.d, lid);
    }
    return s;
}

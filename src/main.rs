//! The `tokstep` binary.

fn main() {}

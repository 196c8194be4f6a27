// Activations of a gated FFN, for the products' epilogue and for the unfused step.
fn silu(v: f32) -> f32 {
    return v / (1.0 + exp(-v));
}

// GELU, tanh form. The argument of tanh is clamped: some drivers return NaN for large ones.
fn gelu(v: f32) -> f32 {
    let t = clamp(0.7978845608028654 * v * (1.0 + 0.044715 * v * v), -15.0, 15.0);
    return 0.5 * v * (1.0 + tanh(t));
}

// Activations of a gated FFN, for the products' epilogue and for the unfused step. Both are v times a sigmoid.
// The argument of exp is clamped: infinities are nothing a device must get right.
fn sigmoid(v: f32) -> f32 {
    return 1.0 / (1.0 + exp(clamp(-v, -80.0, 80.0)));
}

fn silu(v: f32) -> f32 {
    return v * sigmoid(v);
}

// GELU, tanh form, is 0.5 v (1 + tanh(t)) = v sigmoid(2 t); this is 2 t.
fn gelu_arg(v: f32) -> f32 {
    return 1.5957691216057308 * v * (1.0 + 0.044715 * v * v);
}

fn gelu(v: f32) -> f32 {
    return v * sigmoid(gelu_arg(v));
}

// 32 consecutive weights of a row (or as many activations), in order.
struct W32 {
    w0: vec4<f32>,
    w1: vec4<f32>,
    w2: vec4<f32>,
    w3: vec4<f32>,
    w4: vec4<f32>,
    w5: vec4<f32>,
    w6: vec4<f32>,
    w7: vec4<f32>,
}

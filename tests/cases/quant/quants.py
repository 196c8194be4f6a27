"""Block formats of the main ggml quantizations: random valid blocks and exact dequantization.

`blocks(tname, n, rng, std)` makes n weights' worth of random valid blocks with all bits in
use (every 6-bit scale, every high bit), scaled so that the weights have about the given
standard deviation. `dequant(tname, raw)` is the exact float32 value of each weight.
"""
import numpy as np

f16 = np.float16

# Weights and bytes of a block.
BLOCK = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34),
         "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210)}


def _h(raw, off):  # little-endian f16 at a byte offset of every block
    return raw[:, off:off + 2].copy().view("<f2").astype(np.float32)   # (nb,1)


def dequant(tname, raw):
    raw = np.frombuffer(raw, np.uint8) if isinstance(raw, (bytes, bytearray)) else raw
    if tname == "F32":
        return raw.view("<f4").copy()
    if tname == "F16":
        return raw.view("<f2").astype(np.float32)
    if tname == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    b = raw.reshape(-1, BLOCK[tname][1])
    nb = len(b)
    if tname == "Q8_0":
        return (_h(b, 0) * b[:, 2:].view(np.int8).astype(np.float32)).ravel()
    if tname in ("Q4_0", "Q4_1"):
        o = 2 if tname == "Q4_0" else 4
        q = np.concatenate([b[:, o:] & 15, b[:, o:] >> 4], 1).astype(np.float32)
        if tname == "Q4_0":
            return (_h(b, 0) * (q - 8)).ravel()
        return (_h(b, 0) * q + _h(b, 2)).ravel()
    if tname in ("Q5_0", "Q5_1"):
        o = 2 if tname == "Q5_0" else 4
        qh = b[:, o:o + 4].copy().view("<u4")                       # bit i is the high bit of weight i
        hi = ((qh >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8) << 4
        lo = np.concatenate([b[:, o + 4:] & 15, b[:, o + 4:] >> 4], 1)
        q = (lo | hi).astype(np.float32)
        if tname == "Q5_0":
            return (_h(b, 0) * (q - 16)).ravel()
        return (_h(b, 0) * q + _h(b, 2)).ravel()
    if tname == "Q6_K":
        ql, qh, sc, d = b[:, :128], b[:, 128:192], b[:, 192:208].view(np.int8), _h(b, 208)
        out = np.empty((nb, 256), np.float32)
        for half in range(2):                                       # 128 weights each
            L, H = ql[:, 64 * half:64 * half + 64], qh[:, 32 * half:32 * half + 32]
            q = np.concatenate([(L[:, :32] & 15) | ((H & 3) << 4),
                                (L[:, 32:] & 15) | (((H >> 2) & 3) << 4),
                                (L[:, :32] >> 4) | (((H >> 4) & 3) << 4),
                                (L[:, 32:] >> 4) | ((H >> 6) << 4)], 1).astype(np.int32) - 32
            s = np.repeat(sc[:, 8 * half:8 * half + 8].astype(np.float32), 16, 1)
            out[:, 128 * half:128 * half + 128] = (d * s) * q
        return out.ravel()
    if tname in ("Q4_K", "Q5_K"):
        d, dm, s = _h(b, 0), _h(b, 2), b[:, 4:16].astype(np.uint8)
        sc = np.empty((nb, 8), np.float32)
        mn = np.empty((nb, 8), np.float32)
        for j in range(4):
            sc[:, j], mn[:, j] = s[:, j] & 63, s[:, j + 4] & 63
            sc[:, j + 4] = (s[:, j + 8] & 15) | ((s[:, j] >> 6) << 4)
            mn[:, j + 4] = (s[:, j + 8] >> 4) | ((s[:, j + 4] >> 6) << 4)
        qs = b[:, 16:144] if tname == "Q4_K" else b[:, 48:176]
        out = np.empty((nb, 256), np.float32)
        for j in range(8):
            chunk = qs[:, 32 * (j // 2):32 * (j // 2) + 32]
            q = (chunk & 15) if j % 2 == 0 else (chunk >> 4)
            if tname == "Q5_K":
                q = q | (((b[:, 16:48] >> j) & 1) << 4)
            out[:, 32 * j:32 * j + 32] = (d * sc[:, j:j + 1]) * q - dm * mn[:, j:j + 1]
        return out.ravel()
    if tname == "Q2_K":
        s, qs, d, dm = b[:, :16], b[:, 16:80], _h(b, 80), _h(b, 82)
        out = np.empty((nb, 256), np.float32)
        for j in range(16):                                         # 16 groups of 16
            half, r = divmod(j, 8)
            shift, side = 2 * (r // 2), r % 2
            q = (qs[:, 32 * half + 16 * side:32 * half + 16 * side + 16] >> shift) & 3
            dl = d * (s[:, j:j + 1] & 15).astype(np.float32)
            ml = dm * (s[:, j:j + 1] >> 4).astype(np.float32)
            out[:, 16 * j:16 * j + 16] = dl * q - ml
        return out.ravel()
    if tname == "Q3_K":
        hm, qs, s, d = b[:, :32], b[:, 32:96], b[:, 96:108], _h(b, 108)
        out = np.empty((nb, 256), np.float32)
        for j in range(16):
            lo = (s[:, j] & 15) if j < 8 else (s[:, j - 8] >> 4)
            hi = (s[:, 8 + j % 4] >> (2 * (j // 4))) & 3
            sc = ((lo | (hi << 4)).astype(np.int32) - 32).astype(np.float32)[:, None]
            half, r = divmod(j, 8)
            shift, side = 2 * (r // 2), r % 2
            q = ((qs[:, 32 * half + 16 * side:32 * half + 16 * side + 16] >> shift) & 3).astype(np.int32)
            bit = 4 * half + r // 2
            h = (hm[:, 16 * side:16 * side + 16] >> bit) & 1
            q = q - np.where(h == 0, 4, 0)
            out[:, 16 * j:16 * j + 16] = (d * sc) * q
        return out.ravel()
    raise ValueError(tname)


def _put16(b, off, v):
    b[:, off:off + 2] = np.asarray(v, f16).reshape(-1, 1).view(np.uint8).reshape(-1, 2)


def blocks(tname, n, rng, std):
    """Random valid blocks for n weights; weight std is about `std`. Returns bytes."""
    if tname == "F32":
        return (rng.standard_normal(n) * std).astype("<f4").tobytes()
    if tname == "F16":
        return (rng.standard_normal(n) * std).astype("<f2").tobytes()
    if tname == "BF16":
        u = (rng.standard_normal(n) * std).astype("<f4").view(np.uint32)
        return ((u + 0x8000) >> 16).astype("<u2").tobytes()
    blk, size = BLOCK[tname]
    assert n % blk == 0
    nb = n // blk
    b = rng.integers(0, 256, (nb, size), dtype=np.uint8)
    sgn = np.where(rng.random(nb) < 0.5, -1.0, 1.0)               # negative scales are legal
    jit = 0.5 + rng.random(nb)                                      # scales differ between blocks
    if tname == "Q8_0":
        b[:, 2:] = np.clip(np.rint(rng.standard_normal((nb, 32)) * 42), -127, 127).astype(np.int8).view(np.uint8)
        _put16(b, 0, std / 42 * jit * sgn)
    elif tname == "Q4_0":
        _put16(b, 0, std / 4.61 * jit * sgn)
    elif tname == "Q5_0":
        _put16(b, 0, std / 9.23 * jit * sgn)
    elif tname == "Q4_1":
        d = std / 4.61 * jit
        _put16(b, 0, d)
        _put16(b, 2, -7.5 * d)
    elif tname == "Q5_1":
        d = std / 9.23 * jit
        _put16(b, 0, d)
        _put16(b, 2, -15.5 * d)
    elif tname == "Q6_K":
        _put16(b, 208, std / (18.5 * 74) * jit * sgn)
    elif tname in ("Q4_K", "Q5_K"):
        q = 4.61 if tname == "Q4_K" else 9.23
        d = std / (q * 36) * jit * 0.55
        _put16(b, 0, d)
        _put16(b, 2, d * (7.5 if tname == "Q4_K" else 15.5))
    elif tname == "Q2_K":
        d = std / (1.12 * 8.8) * jit * 0.6
        _put16(b, 80, d)
        _put16(b, 82, d * 1.5)
    elif tname == "Q3_K":
        _put16(b, 108, std / (2.3 * 18.5) * jit * sgn)
    return b.tobytes()


def encode(tname, w):
    """Plain round-to-nearest encoder for the simple formats (used by the scripted models)."""
    w = np.asarray(w, np.float32).ravel()
    if tname == "F32":
        return w.astype("<f4").tobytes()
    if tname == "F16":
        return w.astype("<f2").tobytes()
    if tname == "BF16":
        u = w.view(np.uint32).astype(np.uint64)
        return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2").tobytes()
    if tname == "Q8_0":
        x = w.reshape(-1, 32)
        d = (np.abs(x).max(1) / 127).astype(f16)
        inv = np.where(d > 0, 1 / np.maximum(d.astype(np.float32), 1e-30), 0)
        q = np.clip(np.rint(x * inv[:, None]), -127, 127).astype(np.int8)
        b = np.empty((len(x), 34), np.uint8)
        b[:, :2] = d.reshape(-1, 1).view(np.uint8)
        b[:, 2:] = q.view(np.uint8)
        return b.tobytes()
    raise ValueError(tname)

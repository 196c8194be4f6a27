"""Makes TYPE.bin for every weight type: 1024 weights' worth of blocks, then their f32 values.

    python3 tests/cases/quant/make.py        (needs numpy)

The first half are blocks of ordinary size, in the second half every bit is random, but for f16
fields (and floats) being finite. The random numbers of a type come from its place in the list: append.
"""
import os
import sys
import numpy as np

sys.dont_write_bytecode = True                         # leave no __pycache__ beside this file
import quants  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
N = 512

for number, name in enumerate(["F32", "F16", "BF16", *HALVES]):
    rng = np.random.default_rng(number)
    ordinary = quants.blocks(name, N, rng, 0.05)
    b = np.frombuffer(rng.bytes(len(ordinary)), np.uint8).copy()
    if name in HALVES:
        b = b.reshape(-1, quants.BLOCK[name][1])
        for at in HALVES[name]:
            b[:, at + 1] &= 0xFB                       # a zero in the exponent: no infinity, no NaN
    elif name == "F16":
        b[1::2] &= 0xFB
    else:
        b[(3 if name == "F32" else 1)::(4 if name == "F32" else 2)] &= 0xFE
    raw = ordinary + b.tobytes()
    with open(os.path.join(HERE, name.lower() + ".bin"), "wb") as f:
        f.write(raw + quants.dequant(name, raw).astype("<f4").tobytes())

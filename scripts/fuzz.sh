#!/bin/sh
# Runs a fuzz target of fuzz/ with the stable compiler: scripts/fuzz.sh TARGET [SECONDS]
# Targets: gguf, tokenizer, template. New inputs are kept in target/fuzz/corpus/TARGET; an input that
# fails is written to target/fuzz/. Seeds are fuzz/seeds/TARGET and, for gguf, tests/cases/gguf.
set -eu
cd "$(dirname "$0")/.."
target=${1:?a target: gguf, tokenizer or template}
seconds=${2:-1200}
out=${CARGO_TARGET_DIR:-target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
mkdir -p "$out/corpus/$target"
case $target in
    gguf) cases=tests/cases/gguf longest=32768 ;;
    *) cases= longest=4096 ;;
esac
# Coverage counters for libFuzzer; the flags that cargo-fuzz gives, without the sanitizer, which needs
# another compiler: there is no unsafe code of ours in what is fuzzed.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing" \
    cargo build --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$out" --bin "$target"
# shellcheck disable=SC2086
exec "$out/$host/release/$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -max_len=$longest -artifact_prefix="$out/" "$out/corpus/$target" fuzz/seeds/$target $cases

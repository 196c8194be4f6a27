#!/usr/bin/env bash
# Checks and measures this machine's GPU in under five minutes, without any model file, and writes one JSON:
# the kernels' self-checks, the kernel table of 1B and 8B models, then decode and prefill of synthetic models
# at growing depths. What no longer fits into the time is left out and named; the JSON is valid whatever happens.
set -u -o pipefail

usage() {
    cat <<'EOF'
usage: benches/device.sh [options]
  --device WISH      adapter: its number or a part of its name (as `tokstep devices` shows them)
  --force            measure a software device too
  --seconds N        time for checks and measurements together [290]; building is not counted
  --out FILE         where the JSON goes [benches/results/<device>-<date>.json]
  --models A,B       synthetic models [llama-3.2-1b:q4_k_m,llama-3.1-8b:q4_k_m]
  --depths A,B       tokens in the context before each test [0,4096,16384]
  --prompt N         tokens of the measured prompt [512]
  --gen N            tokens generated [64]
  --shapes A,B       models whose products the kernel table has [llama-3.2-1b,llama-3.1-8b]
  --types A,B        type mixes of the kernel table [q4_k_m,q8_0,f16]
  --columns A,B      columns of the kernel table [1,8,128]
  --tokstep FILE     binary to use instead of building one
  --checks FILE      test binary `kernels` to use instead of building one; `none` leaves the checks out
EOF
}

cd "$(dirname "$0")/.." || exit 1
device=${TOKSTEP_DEVICE:-} force=no budget=290 out=
models=llama-3.2-1b:q4_k_m,llama-3.1-8b:q4_k_m depths=0,4096,16384 prompt=512 gen=64
shapes=llama-3.2-1b,llama-3.1-8b types=q4_k_m,q8_0,f16 columns=1,8,128
tokstep= checks=
while [ $# -gt 0 ]; do
    case $1 in
    --force) force=yes && shift && continue ;;
    -h | --help) usage && exit 0 ;;
    --device | --seconds | --out | --models | --depths | --prompt | --gen | --shapes | --types | --columns | \
        --tokstep | --checks) ;;
    *) echo "device.sh: unknown option $1" >&2 && usage >&2 && exit 2 ;;
    esac
    [ $# -ge 2 ] || { echo "device.sh: $1 needs a value" >&2 && exit 2; }
    case $1 in
    --device) device=$2 ;;
    --seconds) budget=$2 ;;
    --out) out=$2 ;;
    --models) models=$2 ;;
    --depths) depths=$2 ;;
    --prompt) prompt=$2 ;;
    --gen) gen=$2 ;;
    --shapes) shapes=$2 ;;
    --types) types=$2 ;;
    --columns) columns=$2 ;;
    --tokstep) tokstep=$2 ;;
    --checks) checks=$2 ;;
    esac
    shift 2
done
case $budget in '' | *[!0-9]*) echo "device.sh: --seconds $budget is no number" >&2 && exit 2 ;; esac

say() { echo "device.sh: $*" >&2; }
fail() { say "$*" && exit 1; }
# A text as a JSON string.
quote() {
    printf '"%s"' "$(printf '%s' "$1" | tr '\n\t\r' '   ' | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g')"
}
# Words of a list with commas.
words() { printf '%s' "$1" | tr ',' ' '; }

work=$(mktemp -d) || fail "no temporary folder"
trap 'rm -rf "$work"' EXIT

# --- build: not counted, it depends on the machine's cores more than on the device ---------------------
commit=$(git rev-parse --short HEAD 2>/dev/null || true)
[ -z "$commit" ] || [ -z "$(git status --porcelain 2>/dev/null)" ] || commit=$commit-changed
if [ -z "$tokstep" ]; then
    say "building tokstep"
    TOKSTEP_COMMIT=$commit cargo build --release --locked || fail "the build failed"
    tokstep=${CARGO_TARGET_DIR:-target}/release/tokstep
fi
if [ -z "$checks" ]; then
    say "building the self-checks"
    # cargo prints `Executable tests/kernels.rs (target/debug/deps/kernels-...)`.
    built=$(cargo test --locked --test kernels --no-run 2>&1) || fail "the checks do not build: $built"
    checks=$(printf '%s\n' "$built" | sed -n 's/^ *Executable .*(\(.*\))$/\1/p' | tail -1)
fi
[ -x "$tokstep" ] || fail "$tokstep is no program"
[ "$checks" = none ] || [ -x "$checks" ] || fail "$checks is no program"

# --- the device ------------------------------------------------------------------------------------------
[ -z "$device" ] || export TOKSTEP_DEVICE=$device
"$tokstep" devices >"$work/devices" || fail "no device to measure (see above)"
# The picked adapter is marked with a star; its fields follow, indented.
picked() { awk '/^[* ] [0-9]/ { on = /^\*/ } on' "$work/devices" | sed -n "s/^    $1  *//p" | head -1; }
name=$(sed -n 's/^\* [0-9]* //p' "$work/devices")
kind=$(picked kind) driver=$(picked driver) backend=$(picked backend)
if [ "$kind" = software ] || [ -z "$kind" ]; then
    [ "$force" = yes ] || fail "there is no GPU here: the device would be $name ($kind). Install the GPU's Vulkan \
driver, choose another adapter with --device, or give --force to measure this one all the same"
fi
if [ -z "$out" ]; then
    slug=$(printf '%s' "$name" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/^-*//; s/-*$//' | cut -c 1-60)
    out=benches/results/$slug-$(date -u +%Y-%m-%d).json
fi
mkdir -p "$(dirname "$out")" && : >>"$out" || fail "$out cannot be written"
say "$name ($kind, $backend, $driver), $budget seconds; results go to $out"

# --- results so far, written again after every part -----------------------------------------------------
log=$work/log.jsonl
: >"$log"
begun=$(date -u +%Y-%m-%dT%H:%M:%SZ)
SECONDS=0
status=unfinished
self_checks='{"status": "not run"}'
skipped=

# Whole lines of the log with a field, as the elements of an array.
runs() { sed -n "/^{.*\"$1\":\[.*}\$/p" "$log" | sed '$!s/$/,/'; }
write() {
    {
        printf '{\n"status": %s,\n"date": %s,\n' "$(quote "$status")" "$(quote "$begun")"
        printf '"device": %s,\n"kind": %s,\n' "$(quote "$name")" "$(quote "$kind")"
        printf '"backend": %s,\n"driver": %s,\n' "$(quote "$backend")" "$(quote "$driver")"
        printf '"version": %s,\n"commit": %s,\n' "$(quote "$("$tokstep" --version)")" "$(quote "$commit")"
        printf '"os": %s,\n"seconds": %s,\n"budget_seconds": %s,\n' "$(quote "$(uname -srm)")" "$SECONDS" "$budget"
        printf '"self_checks": %s,\n"skipped": [%s],\n' "$self_checks" "$skipped"
        printf '"kernel_runs": [\n%s\n],\n"model_runs": [\n%s\n]\n}\n' "$(runs kernels)" "$(runs rows)"
    } >"$work/json" && cp "$work/json" "$out"
}
finish() {
    code=$?
    [ -z "${child:-}" ] || kill "$child" 2>/dev/null
    write || say "$out could not be written"
    rm -rf "$work"
    exit $code
}
trap finish EXIT
trap 'status=interrupted; exit 130' INT TERM
write || fail "$out cannot be written"

left() { echo $((budget - SECONDS)); }
skip() {
    say "skipped: $1 ($2)"
    skipped="${skipped:+$skipped, }{\"part\": $(quote "$1"), \"why\": $(quote "$2")}"
}
# Runs a command for so many seconds at most; 124 when it took longer.
limit() {
    local end=$((SECONDS + $1)) rc
    shift
    "$@" &
    child=$!
    while kill -0 "$child" 2>/dev/null; do
        if [ "$SECONDS" -ge "$end" ]; then
            kill "$child" 2>/dev/null
            sleep 1
            kill -9 "$child" 2>/dev/null
            wait "$child" 2>/dev/null
            child=
            return 124
        fi
        sleep 0.1
    done
    wait "$child"
    rc=$?
    child=
    return $rc
}
# A measurement: what it is called, the fewest seconds worth trying, and the command.
part() {
    local what=$1 least=$2 rc
    shift 2
    if [ "$(left)" -lt "$least" ]; then
        skip "$what" "only $(left) seconds were left"
        return
    fi
    say "$what ($(left) seconds left)"
    limit "$(left)" "$@" >&3 2>"$work/stderr"
    rc=$?
    cat "$work/stderr" >&2
    case $rc in
    0) ;;
    124) skip "$what" "it did not end within its time" ;;
    *) skip "$what" "exit code $rc: $(grep -v '^$' "$work/stderr" | tail -1)" ;;
    esac
    write
}

exec 3>&2 # tables go to the terminal as they come

# --- 1. self-checks: every kernel against its twin on the CPU, at most a third of the time ---------------
result='not run'
if [ "$checks" = none ]; then
    skip "self-checks" "--checks none"
else
    say "self-checks"
    from=$SECONDS
    CI=true limit $((budget / 3)) "$checks" >"$work/checks" 2>&1
    rc=$?
    tail -25 "$work/checks" >&2
    case $rc in
    0) result=passed ;;
    124) result="did not end within $((budget / 3)) seconds" ;;
    *) result=failed ;;
    esac
    lines() { sed -n "s/^test \(.*[^ ]\) *\.\.\. $1\$/\1/p" "$work/checks" | while read -r t; do quote "$t" && echo; done | sed '$!s/$/,/'; }
    self_checks="{\"status\": $(quote "$result"), \"seconds\": $((SECONDS - from)),
\"passed\": [$(lines ok)], \"failed\": [$(lines FAILED)], \"output\": [
$(grep -v '^$' "$work/checks" | tail -40 | while read -r l; do quote "$l" && echo; done | sed '$!s/$/,/')]}"
    write
fi

# --- 2. decode and prefill without a context: what matters most -------------------------------------------
bench() {
    part "$1 at depth $2" 5 "$tokstep" bench --synthetic "$1" -p "$prompt" -n "$gen" -d "$2" -r 3 --log "$log"
}
first=${depths%%,*} rest=
case $depths in *,*) rest=${depths#*,} ;; esac
for model in $(words "$models"); do bench "$model" "$first"; done

# --- 3. the kernel table, one run for each model and type so that what is there is kept --------------------
for type in $(words "$types"); do
    for shape in $(words "$shapes"); do
        part "kernels of $shape:$type" 3 "$tokstep" bench --kernels --shapes "$shape" --types "$type" \
            --columns "$columns" -r 3 --log "$log"
    done
done

# --- 4. the depths -----------------------------------------------------------------------------------------
for depth in $(words "$rest"); do
    for model in $(words "$models"); do bench "$model" "$depth"; done
done

status=complete
[ -z "$skipped" ] || status="parts skipped"
write
say "$status after $SECONDS seconds: $out"
[ "$result" != failed ] || fail "self-checks failed"

# What people type. Everything here is plain cargo plus two small scripts.

.PHONY: chat build test test-all check

# Named in the log of `tokstep bench --log`.
export TOKSTEP_COMMIT ?= $(shell git rev-parse --short HEAD 2>/dev/null)

# Chat with SmolLM2 135M: needs nothing but Rust on a Debian or Ubuntu machine.
chat:
	@scripts/vulkan.sh
	cargo build --release --locked
	@$${CARGO_TARGET_DIR:-target}/release/tokstep chat -m smollm2

build:
	cargo build --release --locked

# Everything, on whatever Vulkan device there is (lavapipe if none).
# (Mesa's device-select layer complains where there is no desktop session; tests pick devices themselves.)
# Then what needs a device once more, with no more of it than a browser gives (the goldens of real models only
# in test-all).
test test-all: export NODEVICE_SELECT = 1
test:
	@scripts/vulkan.sh
	@scripts/models.sh
	cargo test --locked
	TOKSTEP_LIMITS=browser cargo test --locked $(NARROW)

NARROW = $(addprefix --test ,kernels models decode_loop shards sampling_gpu verify sessions load tune synth soak \
	run bench lost proofs)

# Everything with all limits, and what needs a device with small ones as well and on SwiftShader, whose
# loader file SWIFTSHADER_ICD names; the real models' goldens with each of them, which takes over an hour.
GPU_TESTS = $(NARROW) --test golden
SWIFTSHADER_ICD ?= $(firstword $(wildcard /usr/lib/chromium/vk_swiftshader_icd.json \
	/usr/share/vulkan/icd.d/vk_swiftshader_icd.json))
test-all:
	@scripts/vulkan.sh
	@scripts/models.sh
	cargo test --locked
	TOKSTEP_LIMITS=browser cargo test --locked $(GPU_TESTS)
	TOKSTEP_LIMITS=low cargo test --locked $(GPU_TESTS)
ifeq ($(SWIFTSHADER_ICD),)
	@echo "SwiftShader is not here: skipped (SWIFTSHADER_ICD=/path/of/vk_swiftshader_icd.json runs it)"
else
	VK_ICD_FILENAMES=$(SWIFTSHADER_ICD) cargo test --locked $(GPU_TESTS)
endif

check:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

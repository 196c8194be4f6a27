# What people type. Everything here is plain cargo plus two small scripts.

.PHONY: chat build test check

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
test: export NODEVICE_SELECT = 1
test:
	@scripts/vulkan.sh
	@scripts/models.sh
	cargo test --locked

check:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

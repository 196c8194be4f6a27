//! Comparing every step of a plan with its CPU twin (`--verify`).

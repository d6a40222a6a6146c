//! The program: all of it is in the library.

/// Planning takes memory for a moment on whichever thread it runs, and glibc keeps that memory for the
/// thread: 300 MB for 100,000 steps. This allocator gives it back (`tests/bench/engine.rs`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    gone::app::main()
}

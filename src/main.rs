//! The program: all of it is in the library.

/// Planning needs much memory for a moment, and glibc then keeps that memory for the thread that planned:
/// 300 MB for 100,000 steps. This allocator returns it to the system (`tests/bench/engine.rs`).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    gone::app::main()
}

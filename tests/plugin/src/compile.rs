//! The child that compiles, as the operator's binary has it behind a hidden subcommand.

// As the operator's binary has it: what a child may ask of the kernel must do for it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    numo_plugin::compile_child()
}

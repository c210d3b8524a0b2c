//! The child that compiles, as the operator's binary has it behind a hidden subcommand.

fn main() -> std::process::ExitCode {
    numo_plugin::compile_child()
}

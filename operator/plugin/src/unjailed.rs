//! In place of `jail.rs` where the kernel is not Linux, and in a program without the sandbox: there are no walls, so no child is begun that would read what a stranger
//! wrote. No component is compiled and no expression evaluated, and a gate that asks one stays shut. The operator runs on Linux;
//! this is for the command line.

use std::io;

/// Why, and what helps; for the end of a sentence.
#[cfg(feature = "sandbox")]
const REFUSED: &str = "this needs Linux, whose kernel shuts in the process that reads a component or an expression (Landlock, \
                       seccomp); run numo in a container or a virtual machine with Linux";

/// Whether there is anything to shut a child in with.
///
/// Errors: always.
pub(crate) fn has_walls() -> io::Result<()> {
    #[cfg(feature = "sandbox")]
    let why = REFUSED;
    #[cfg(not(feature = "sandbox"))]
    let why = crate::setup::Absent;
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// What is missing, in words.
pub fn missing() -> Vec<String> {
    vec![
        "Landlock".to_owned(),
        "seccomp, so that nothing is shut in".to_owned(),
    ]
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
mod tests {
    use super::*;

    #[test]
    fn without_walls_nothing_of_a_strangers_is_read() {
        let refused = has_walls().unwrap_err().to_string();
        assert!(
            refused.contains("needs Linux") && refused.contains("container"),
            "{refused}"
        );
        assert_eq!(missing().len(), 2);
    }
}

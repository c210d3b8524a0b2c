//! A child that was taken over: it tries whatever the children of the operator must not, and names on standard output what
//! went through. The first argument is `confined` or `free`, the second a file, the third an address on loopback.

use std::{
    io::Write as _,
    net::{TcpStream, UdpSocket},
    os::unix::net::UnixDatagram,
    process::{Command, ExitCode},
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, how, file, address] = arguments.as_slice() else {
        return ExitCode::FAILURE;
    };
    if how == "confined"
        && let Err(error) = numo_plugin::confined::confine(1 << 30, 20)
    {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let own = nix::unistd::getpid();
    let attempts = [
        ("reads", std::fs::read(file).is_ok()),
        ("writes", std::fs::write(format!("{file}.new"), "x").is_ok()),
        ("lists", std::fs::read_dir("/proc/self").is_ok()),
        ("connects", TcpStream::connect(address).is_ok()),
        ("binds", UdpSocket::bind("127.0.0.1:0").is_ok()),
        ("pairs", UnixDatagram::pair().is_ok()),
        ("starts", Command::new("/bin/true").spawn().is_ok()),
        (
            "looks at its parent",
            nix::sys::signal::kill(nix::unistd::getppid(), None).is_ok(),
        ),
        ("changes its group", nix::unistd::setpgid(own, own).is_ok()),
    ];
    // What a compiler needs goes on.
    let memory = vec![1_u8; 64 << 20];
    let threads = std::thread::Builder::new().spawn(|| ()).is_ok();
    let mut output = std::io::stdout().lock();
    for (name, went) in attempts.into_iter().chain([("threads", threads)]) {
        if went && writeln!(output, "{name}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    assert!(memory.iter().all(|byte| *byte == 1), "its memory is its own");
    ExitCode::SUCCESS
}

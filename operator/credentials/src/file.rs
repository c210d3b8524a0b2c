//! Mounted files, read anew each time: what the kubelet or a person renews counts at once.

use crate::refusal::Refusal;
use secrecy::zeroize::Zeroizing;
use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// How long a file may be (bytes). A longer one is not read, let alone parsed.
pub const FILE_BYTES: usize = 64 << 10;

/// The text of a file.
pub(crate) fn read(name: &str, file: &Path) -> Result<Zeroizing<String>, Refusal> {
    let mut bytes = bounded(file).map_err(|error| Refusal::unreadable(name, file, error.to_string()))?;
    if bytes.len() > FILE_BYTES {
        let problem = format!("found more than {FILE_BYTES} bytes, wanted at most that many");
        return Err(Refusal::unreadable(name, file, problem));
    }
    let text = String::from_utf8(std::mem::take(&mut *bytes)).map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        Refusal::malformed(name, &file.display(), "text", "bytes that are no UTF-8", "UTF-8")
    })?;
    Ok(Zeroizing::new(text))
}

/// A file up to one byte more than it may have. What is no file could let the reader wait for ever.
fn bounded(file: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("found no regular file, wanted one"));
    }
    let most = FILE_BYTES + 1;
    // At its full size from the beginning: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(most + 1));
    File::open(file)?.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The token that stands alone in the text of a file, with blanks and line ends around it.
pub(crate) fn token_in<'t>(name: &str, file: &Path, text: &'t str) -> Result<&'t str, Refusal> {
    let token = text.trim();
    match check_token(token) {
        Ok(()) => Ok(token),
        Err(found) => Err(Refusal::malformed(name, &file.display(), "token", found, WANTED)),
    }
}

/// What a token is.
const WANTED: &str = "one token of at most 16384 printable ASCII characters without blanks";
/// Longer ones do not fit into a header.
const TOKEN_BYTES: usize = 16 << 10;

/// What is wrong with a token, without showing it.
pub(crate) fn check_token(token: &str) -> Result<(), &'static str> {
    if token.is_empty() {
        return Err("nothing");
    }
    if token.len() > TOKEN_BYTES {
        return Err("a longer one");
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a blank, a line end or a character beyond ASCII in it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_and_a_folder_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("long");
        std::fs::write(&file, "s".repeat(FILE_BYTES)).unwrap();
        assert_eq!(read("a", &file).unwrap().len(), FILE_BYTES);
        std::fs::write(&file, "s".repeat(FILE_BYTES + 1)).unwrap();
        let text = read("a", &file).unwrap_err().to_string();
        assert!(
            text.ends_with("long: found more than 65536 bytes, wanted at most that many"),
            "{text}"
        );
        let refusal = read("a", folder.path()).unwrap_err();
        assert_eq!(refusal.reason(), "CredentialUnreadable");
        assert_eq!(
            read("a", Path::new("/dev/zero")).unwrap_err().reason(),
            "CredentialUnreadable"
        );
    }

    #[test]
    fn a_token_is_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let at = |text: &[u8]| {
            std::fs::write(&file, text).unwrap();
            read("a", &file).and_then(|text| token_in("a", &file, &text).map(str::to_owned))
        };
        assert_eq!(at(b"\n abc.def \r\n").unwrap(), "abc.def");
        for bad in [
            &b"ab c"[..],
            b"ab\nc",
            b"",
            b" \n",
            b"\xff\xfe",
            "ä".as_bytes(),
            &vec![b'x'; 16_385],
        ] {
            let refusal = at(bad).unwrap_err();
            assert_eq!(refusal.reason(), "CredentialMalformed", "{refusal}");
        }
    }
}

//! `WWW-Authenticate` of a registry, and the answer of the token server that it names. The first byte tells which. The
//! values of several headers stand on lines of their own.

use numo_plugin::oci::untrusted;
use serde_json::json;

use crate::Source;

const HEADERS: u8 = 0;
const TOKEN: u8 = 1;

pub(super) fn read(bytes: &[u8]) {
    match bytes.split_first() {
        Some((&TOKEN, answer)) => {
            if let Some(token) = untrusted::token(answer) {
                assert!(!token.is_empty(), "no token is a token");
            }
        }
        Some((_, values)) => {
            let lines = || values.split(|byte| *byte == b'\n');
            let Some((realm, service)) = untrusted::challenge(lines()) else {
                return;
            };
            // What is sent on was said by the registry, as it stands there.
            for said in realm.iter().chain(&service) {
                let said = said.as_bytes();
                assert!(
                    said.is_empty() || lines().any(|line| line.windows(said.len()).any(|part| part == said)),
                    "{said:?} was made up"
                );
            }
        }
        None => {}
    }
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    if source.once_in(4) {
        let token = json!({"token": source.one(&["", "a.b.c"]), "access_token": "d", "expires_in": 300});
        return [&[TOKEN], token.to_string().as_bytes()].concat();
    }
    let mut lines = Vec::new();
    for _ in 0..=source.below(3) {
        let scheme = source.one(&["Bearer", "bearer", "Basic", "Negotiate", ""]);
        let mut parameters = Vec::new();
        for _ in 0..source.below(5) {
            let key = source.one(&["realm", "Realm", "service", "scope", "error", ""]);
            let value = source.one(&[
                "https://auth.example.com/token",
                "registry.example.com",
                "repository:a/b:pull,push",
                "a\\\"b",
                "",
            ]);
            let quote = source.one(&["\"", "\"", "\"", ""]);
            parameters.push(format!("{key}={quote}{value}{quote}"));
        }
        lines.push(format!(
            "{scheme} {}",
            parameters.join(source.one(&[",", ", ", " , "]))
        ));
    }
    [&[HEADERS], lines.join("\n").as_bytes()].concat()
}

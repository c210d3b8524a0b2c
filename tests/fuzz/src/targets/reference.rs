//! References to images, digests, and address ranges of grants.

use numo_plugin::{
    address::AddressRange,
    oci::{Digest, Reference},
};

use crate::Source;

pub(super) fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(reference) = text.parse::<Reference>() {
        let shown = reference.to_string();
        assert_eq!(
            shown.parse::<Reference>().as_ref(),
            Ok(&reference),
            "{shown} is read differently"
        );
        assert!(shown.len() <= Reference::BYTES);
        // It becomes a URL and a file's name.
        let path = format!("{}/{}", reference.registry, reference.repository);
        let strange = |c: char| !(c.is_ascii_alphanumeric() || "./:-_[]".contains(c));
        assert!(!path.contains("..") && !path.contains(strange), "{path}");
    }
    if let Ok(digest) = text.parse::<Digest>() {
        assert_eq!(digest.hex().len(), 64);
        assert_eq!(digest.as_str(), text);
    }
    let range = serde_json::from_value::<AddressRange>(text.into());
    if let Ok(range) = range {
        let again = serde_json::to_value(range).and_then(serde_json::from_value::<AddressRange>);
        assert_eq!(again.ok().as_ref(), Some(&range), "{text} is read differently");
    }
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    if source.once_in(8) {
        return source
            .one(&[
                "10.0.0.0/8",
                "fd00::/8",
                "192.0.2.7",
                "::ffff:10.0.0.1/104",
                "0.0.0.0/0",
            ])
            .as_bytes()
            .to_vec();
    }
    let registry = source.one(&["registry.example.com", "localhost", "[::1]", "10.0.0.1", "reg"]);
    let port = source.one(&["", ":5000", ":65535", ":0"]);
    let path = source.one(&["rule", "team/rule", "a/b_c/d.e-f", "a__b/c--d", "library"]);
    let digest = format!("@sha256:{}", source.one(&["0", "e", "9"]).repeat(64));
    let version = match source.below(4) {
        0 => ":1.2".to_owned(),
        1 => format!(":v1{digest}"),
        2 => String::new(),
        _ => digest,
    };
    format!("{registry}{port}/{path}{version}").into_bytes()
}

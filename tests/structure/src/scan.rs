//! Paths and panics in what a parser of Rust leaves as tokens: the insides of macros and attributes.

use proc_macro2::{TokenStream, TokenTree};

/// A path as it is written, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention {
    /// Its segments.
    pub segments: Vec<String>,
    /// Its line.
    pub line: usize,
}

/// Paths of at least two segments, anywhere in tokens. `strings`: also where a string is nothing but a path, as in
/// `serde(default = "a::b")`.
pub fn mentions(tokens: TokenStream, strings: bool) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut open: Option<Mention> = None;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if colons != 2 {
                    keep(&mut found, open.take());
                }
                let line = ident.span().start().line;
                let mention = open.get_or_insert(Mention {
                    segments: Vec::new(),
                    line,
                });
                mention.segments.push(ident.to_string());
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => colons += 1,
            other => {
                keep(&mut found, open.take());
                colons = 0;
                found.extend(inside(other, strings));
            }
        }
    }
    keep(&mut found, open);
    found
}

fn keep(found: &mut Vec<Mention>, mention: Option<Mention>) {
    found.extend(mention.filter(|mention| mention.segments.len() > 1));
}

/// The paths in a group of tokens or in a string.
fn inside(token: TokenTree, strings: bool) -> Vec<Mention> {
    match token {
        TokenTree::Group(group) => mentions(group.stream(), strings),
        TokenTree::Literal(literal) if strings => {
            let line = literal.span().start().line;
            let text = literal.to_string();
            let path = text.trim_matches('"');
            let is_name =
                |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
            let segments: Vec<String> = path.split("::").map(ToOwned::to_owned).collect();
            if segments.len() > 1 && segments.iter().all(|segment| is_name(segment)) {
                vec![Mention { segments, line }]
            } else {
                Vec::new()
            }
        }
        _ => Vec::new(),
    }
}

/// How many places in tokens panic by a method: `.unwrap(`, `.expect(`.
pub fn panics(tokens: TokenStream) -> usize {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let nested: usize = tokens
        .iter()
        .map(|token| match token {
            TokenTree::Group(group) => panics(group.stream()),
            _ => 0,
        })
        .sum();
    let called = tokens.windows(3).filter(|three| {
        matches!(three, [TokenTree::Punct(dot), TokenTree::Ident(name), TokenTree::Group(_)]
            if dot.as_char() == '.' && is_panic(&name.to_string()))
    });
    nested + called.count()
}

/// Whether a method or a macro of this name panics.
pub fn is_panic(name: &str) -> bool {
    [
        "unwrap",
        "expect",
        "panic",
        "todo",
        "unreachable",
        "unimplemented",
    ]
    .contains(&name)
}

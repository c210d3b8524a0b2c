//! Parameters of the Query APIs, and their answers as XML. Knows no resource.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use std::{collections::BTreeMap, fmt::Display};

/// Which API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// EC2.
    Ec2,
    /// Auto Scaling.
    AutoScaling,
}

impl Api {
    /// Its name in signatures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::AutoScaling => "autoscaling",
        }
    }

    /// Its version.
    pub fn version(self) -> &'static str {
        match self {
            Self::Ec2 => "2016-11-15",
            Self::AutoScaling => "2011-01-01",
        }
    }
}

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads them from query and form.
    pub fn read(query: &str, body: &[u8]) -> Self {
        let form = String::from_utf8_lossy(body);
        let pairs = query.split('&').chain(form.split('&'));
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// One that must be there.
    pub fn need(&self, name: &str) -> Result<&str, Refused> {
        self.get(name).ok_or_else(|| {
            let words = format!("The request must contain the parameter {name}");
            Refused::new(400, "MissingParameter", &words)
        })
    }

    /// A list: `InstanceId.1`, `InstanceId.2` and so on.
    pub fn list(&self, prefix: &str) -> Vec<&str> {
        let numbers = 1..;
        numbers
            .map_while(|at: usize| self.get(&format!("{prefix}.{at}")))
            .collect()
    }

    /// All of them, but for those that every request has.
    pub fn own(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self
            .0
            .iter()
            .filter(|(name, _)| !["Action", "Version"].contains(&name.as_str()));
        own.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Refuses what an action does not know.
    pub fn only(&self, known: &[&str]) -> Result<(), Refused> {
        let is_known = |name: &str| {
            known.iter().any(|known| {
                let is_list = known.ends_with('.') && name.starts_with(known);
                is_list || name == *known
            })
        };
        match self.own().find(|(name, _)| !is_known(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let words = format!("The parameter {name} is not recognized");
                Err(Refused::new(400, "UnknownParameter", &words))
            }
        }
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8_lossy(&digits).into_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An error of an API.
#[derive(Clone, Debug)]
pub struct Refused {
    status: u16,
    code: String,
    words: String,
}

impl Refused {
    /// One with status, code and words.
    pub fn new(status: u16, code: &str, words: &str) -> Self {
        Self {
            status,
            code: code.to_owned(),
            words: words.to_owned(),
        }
    }

    /// What Auto Scaling says of most things.
    pub fn validation(words: &str) -> Self {
        Self::new(400, "ValidationError", words)
    }

    /// As the API writes it.
    pub fn into_response(self, api: Api) -> Response {
        let (code, words) = (escaped(&self.code), escaped(&self.words));
        let xml = match api {
            Api::Ec2 => format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code><Message>{words}</Message></Error></Errors><RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>"
            ),
            Api::AutoScaling => format!(
                "<ErrorResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Error><Type>Sender</Type><Code>{code}</Code><Message>{words}</Message></Error><RequestId>7c6e177f-f082-11e1-ac58-example</RequestId></ErrorResponse>"
            ),
        };
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_REQUEST);
        (status, [("content-type", "text/xml;charset=UTF-8")], xml).into_response()
    }
}

/// A text in XML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// An element with a text.
pub fn element(name: &str, text: impl Display) -> String {
    wrapped(name, &escaped(&text.to_string()))
}

/// An element with elements in it.
pub fn wrapped(name: &str, inner: &str) -> String {
    format!("<{name}>{inner}</{name}>")
}

/// An answer of EC2.
pub fn ec2(action: &str, inner: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\n    <requestId>59dbff89-35bd-4eac-99ed-example</requestId>\n    {inner}\n</{action}Response>"
    )
}

/// An answer of Auto Scaling.
pub fn autoscaling(action: &str, inner: &str) -> String {
    format!(
        "<{action}Response xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\">\n  <{action}Result>{inner}</{action}Result>\n  <ResponseMetadata><RequestId>7c6e177f-f082-11e1-ac58-example</RequestId></ResponseMetadata>\n</{action}Response>"
    )
}

/// One page of a list, and the token of the next.
pub fn page<T: Clone>(
    all: &[T],
    size: usize,
    token: Option<&str>,
) -> Result<(Vec<T>, Option<String>), Refused> {
    let from = match token {
        None => 0,
        Some(token) => {
            let at = token.strip_prefix("page-").and_then(|at| at.parse().ok());
            at.ok_or_else(|| Refused::new(400, "InvalidNextToken", "The token is not valid"))?
        }
    };
    let items: Vec<T> = all.iter().skip(from).take(size).cloned().collect();
    let next = from + items.len();
    Ok((items, (next < all.len()).then(|| format!("page-{next}"))))
}

//! What the tests share.

use async_trait::async_trait;
use http::{Request, request::Parts};
use jiff::{SignedDuration, Timestamp};
use numo_credentials::{Answer, Credentials, Exchange, NamedSource, Refusal};
use std::{collections::VecDeque, path::PathBuf, sync::Mutex};
use tempfile::TempDir;
use url::Url;

/// A token endpoint: it gives its answers one after another, the last one again and again.
#[derive(Default)]
pub struct Endpoint {
    answers: Mutex<VecDeque<Result<Answer, String>>>,
    asked: Mutex<Vec<(String, String)>>,
}

impl Endpoint {
    pub fn saying(answers: impl IntoIterator<Item = (u16, String)>) -> Self {
        let endpoint = Self::default();
        for (status, body) in answers {
            endpoint.then(Ok((status, body)));
        }
        endpoint
    }

    pub fn token(token: &str, expires_in: i64) -> Self {
        Self::saying([(200, token_answer(token, expires_in))])
    }

    pub fn then(&self, answer: Result<(u16, String), String>) {
        let answer = answer.map(|(status, body)| Answer {
            status,
            body: body.into_bytes(),
        });
        self.answers.lock().unwrap().push_back(answer);
    }

    /// How often it was asked.
    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// URL and pairs of the last form.
    pub fn last(&self) -> (String, Vec<(String, String)>) {
        let asked = self.asked.lock().unwrap();
        let (url, form) = asked.last().unwrap();
        let pairs = url::form_urlencoded::parse(form.as_bytes()).into_owned();
        (url.clone(), pairs.collect())
    }

    /// One value of the last form.
    pub fn value(&self, name: &str) -> String {
        let (_, pairs) = self.last();
        pairs.into_iter().find(|(key, _)| key == name).unwrap().1
    }
}

#[async_trait]
impl Exchange for Endpoint {
    async fn post(&self, url: &Url, form: &str) -> Result<Answer, String> {
        self.asked
            .lock()
            .unwrap()
            .push((url.to_string(), form.to_owned()));
        // Others get the processor meanwhile.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let mut answers = self.answers.lock().unwrap();
        if answers.len() > 1 {
            return answers.pop_front().unwrap();
        }
        answers
            .front()
            .cloned()
            .unwrap_or(Err("connection refused".to_owned()))
    }
}

pub fn token_answer(token: &str, expires_in: i64) -> String {
    serde_json::json!({"access_token": token, "expires_in": expires_in, "token_type": "Bearer"}).to_string()
}

/// A folder with files, and credentials that read them.
pub struct Stage {
    folder: TempDir,
    pub credentials: Credentials,
}

impl Stage {
    /// With one credential named `a`. `FOLDER` stands for the folder of its files.
    pub fn new(source: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let text = format!("- name: a\n  {}\n", source.replace("FOLDER", &path));
        let sources: Vec<NamedSource> = serde_saphyr::from_str(&text).unwrap();
        Self {
            folder,
            credentials: Credentials::new(sources).unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The `authorization` of a request that is signed `seconds` after the beginning.
    pub async fn bearer(&self, endpoint: &Endpoint, seconds: i64) -> Result<String, Refusal> {
        let mut request = get("https://compute.example/v1");
        let now = at(seconds);
        let signed = self
            .credentials
            .sign("a", "bearer", &[], &mut request, b"", now, endpoint);
        signed.await?;
        Ok(header(&request, "authorization").unwrap())
    }

    /// The headers of a request that is signed for AWS.
    pub async fn aws(&self, endpoint: &Endpoint, seconds: i64) -> Result<Parts, Refusal> {
        let mut request = get("https://autoscaling.eu-central-1.amazonaws.com/");
        let parameters = parameters(&[("service", "autoscaling"), ("region", "eu-central-1")]);
        let now = at(seconds);
        let signed = self
            .credentials
            .sign("a", "aws-sigv4", &parameters, &mut request, b"", now, endpoint);
        signed.await?;
        Ok(request)
    }
}

pub fn get(url: &str) -> Parts {
    Request::get(url).body(()).unwrap().into_parts().0
}

pub fn header(request: &Parts, name: &str) -> Option<String> {
    Some(request.headers.get(name)?.to_str().unwrap().to_owned())
}

pub fn parameters(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// Seconds after the beginning.
pub fn at(seconds: i64) -> Timestamp {
    let beginning: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
    beginning + SignedDuration::from_secs(seconds)
}

/// The text of a refusal, which is asserted not to have its reason for nothing.
pub fn said(refusal: &Refusal, reason: &str) -> String {
    assert_eq!(refusal.reason(), reason, "{refusal}");
    refusal.to_string()
}

pub const AZURE: &str = "azureClientSecret: {tenantId: tenant-1, clientId: client-1, file: FOLDER/secret}";

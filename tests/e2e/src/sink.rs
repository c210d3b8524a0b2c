//! A sink of CloudEvents on loopback, as a MutexNotifier may have it: it keeps what it is sent and when that came, and answers as it is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Result;
use jiff::Timestamp;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::Stage;

/// Longest body that it takes (bytes).
const BODY: usize = 1 << 20;

/// What it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// It takes what it is sent.
    #[default]
    Takes,
    /// It is down: 500.
    Fails,
    /// It says nothing.
    Hangs,
}

/// What came, and how it is answered.
#[derive(Debug, Default)]
struct Kept {
    events: Vec<(Timestamp, Value)>,
    answers: Answers,
}

/// A sink of CloudEvents.
#[derive(Clone, Debug, Default)]
pub struct Sink(Arc<Mutex<Kept>>);

impl Sink {
    /// A sink that answers so, and its URL.
    pub async fn serve(answers: Answers) -> Result<(Self, String)> {
        let sink = Self::default();
        sink.answer(answers);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/numo", listener.local_addr()?);
        let serving = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().take(stream));
            }
        });
        Ok((sink, url))
    }

    /// Has it answer so from now on.
    pub fn answer(&self, answers: Answers) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answers = answers;
    }

    async fn take(self, stream: TcpStream) -> Result<()> {
        let mut stream = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse::<usize>()?;
            }
        }
        let mut body = vec![0; length.min(BODY)];
        stream.read_exact(&mut body).await?;
        let answers = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let event = (Timestamp::now(), serde_json::from_slice(&body)?);
            kept.events.push(event);
            kept.answers
        };
        let status = match answers {
            Answers::Takes => "202 Accepted",
            Answers::Fails => "500 Internal Server Error",
            Answers::Hangs => return std::future::pending().await,
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        stream.get_mut().write_all(answer.as_bytes()).await?;
        Ok(())
    }

    /// What came, each with when it did.
    pub fn arrived(&self) -> Vec<(Timestamp, Value)> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.events.clone()
    }

    /// What came.
    pub fn events(&self) -> Vec<Value> {
        self.arrived().into_iter().map(|(_, event)| event).collect()
    }

    /// The event of this transition and this subject, once it came.
    pub async fn until(&self, stage: &Stage, transition: &str, subject: &str) -> Result<Value> {
        let type_ = format!("io.skrzypek.openshift-optional.numo.{transition}");
        stage
            .until(&format!("{transition} of {subject}"), 60, || async {
                let mut events = self.events().into_iter();
                Ok(events.find(|event| event["type"] == type_ && event["subject"] == subject))
            })
            .await
    }

    /// The ids that each transition of each subject was told with.
    pub fn ids(&self) -> BTreeMap<String, BTreeSet<String>> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in self.events() {
            let what = format!(
                "{} {}",
                text(&event["data"]["transition"]),
                text(&event["subject"])
            );
            all.entry(what).or_default().insert(text(&event["id"]));
        }
        all
    }
}

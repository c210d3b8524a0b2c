//! What a person said, as it is kept on an object, and how far a write goes. Nothing is read or written here.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Words that are kept on an object, the latest.
const KEPT: usize = 10;

/// How far a write goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DryRun {
    /// Write it
    #[default]
    None,
    /// Print it, and send nothing
    Client,
    /// Send it, and have the API server persist nothing
    Server,
}

impl DryRun {
    /// What is written after a line, as kubectl does.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}

/// Something a person said about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// When.
    pub at: String,
    /// The verb.
    pub verb: String,
    /// Who, as the API server knows them.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Remark {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        let why = self
            .reason
            .as_deref()
            .map_or_else(String::new, |why| format!(": {why}"));
        format!("{} by {}{why}", self.verb, self.by)
    }

    /// The words that are kept on an object, oldest first.
    pub fn kept(annotation: Option<&String>) -> Vec<Self> {
        annotation
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default()
    }

    /// The annotation with this word added.
    pub fn added(&self, annotation: Option<&String>) -> String {
        let mut all = Self::kept(annotation);
        all.push(self.clone());
        let from = all.len().saturating_sub(KEPT);
        json!(all[from..]).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_words_are_kept_and_nonsense_is_no_word() {
        let word = |number: usize| Remark {
            at: number.to_string(),
            verb: "pause".to_owned(),
            by: "ada".to_owned(),
            reason: None,
        };
        let mut kept = None;
        for number in 0..KEPT + 3 {
            kept = Some(word(number).added(kept.as_ref()));
        }
        let found = Remark::kept(kept.as_ref());
        assert_eq!(found.len(), KEPT);
        assert_eq!(found.first().map(|word| word.at.as_str()), Some("3"));
        let nonsense = "{".to_owned();
        assert_eq!(Remark::kept(Some(&nonsense)), []);
        assert_eq!(Remark::kept(Some(&word(1).added(Some(&nonsense)))).len(), 1);
    }
}

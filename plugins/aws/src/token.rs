//! What one call of a creation leaves for the next: read and written. A token of another form, or too old, is none.

use crate::launch::Recipe;
use numo_provider_sdk::serde_json::{self, Value, json};

/// Seconds for which a token of a placed request is good. A later call begins anew, and finds what was made by its tag.
const PLACED_SECONDS: u64 = 120;
/// Seconds in which EC2 has to list an instance that it has made.
const UNSEEN_SECONDS: u64 = 300;
/// Bytes of a token, below the contract's 4 KiB.
const MOST_BYTES: usize = 3800;
/// Seconds by which the clock of another replica may be ahead.
const AHEAD_SECONDS: u64 = 30;

/// What is known from the call before.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// Subnets in the order in which they are tried, before anything was made.
    Placed {
        /// When they were chosen.
        at: u64,
        /// Not before.
        from: u64,
        /// The subnets; never none.
        subnets: Vec<String>,
        /// How the machine is made, if it has room here.
        recipe: Option<Recipe>,
    },
    /// EC2 has made an instance, or says that it did before.
    Made {
        /// When.
        at: u64,
    },
}

impl Token {
    /// Reads one that is still good.
    pub fn read(text: Option<&str>, now: u64) -> Option<Self> {
        let token = Self::parse(text?)?;
        let (at, good) = match &token {
            Self::Placed { at, .. } => (*at, PLACED_SECONDS),
            Self::Made { at } => (*at, UNSEEN_SECONDS),
        };
        let is_good = at <= now.saturating_add(AHEAD_SECONDS) && now <= at.saturating_add(good);
        Some(token).filter(|_| is_good)
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let at = value.get("at")?.as_u64()?;
        if value.get("made").is_some() {
            return Some(Self::Made { at });
        }
        let subnets = value.get("subnets")?.as_array()?.iter();
        let subnets: Option<Vec<String>> = subnets.map(|one| one.as_str().map(str::to_owned)).collect();
        Some(Self::Placed {
            at,
            from: value.get("from")?.as_u64()?,
            subnets: subnets.filter(|subnets| !subnets.is_empty())?,
            recipe: value.get("recipe").and_then(Recipe::parse),
        })
    }

    /// Writes it. A recipe that has no room is left out.
    pub fn write(&self) -> String {
        let (at, from, subnets, recipe) = match self {
            Self::Made { at } => return json!({"at": at, "made": true}).to_string(),
            Self::Placed {
                at,
                from,
                subnets,
                recipe,
            } => (at, from, subnets, recipe),
        };
        let recipe = recipe.as_ref().map(Recipe::value);
        let whole = json!({"at": at, "from": from, "subnets": subnets, "recipe": recipe}).to_string();
        if whole.len() <= MOST_BYTES {
            return whole;
        }
        json!({"at": at, "from": from, "subnets": subnets}).to_string()
    }
}

//! What the numo that leads knows and nobody can see in the cluster, on an object that the command line reads: an annotation
//! of the leader Lease. Decides nothing.

use k8s_openapi::api::coordination::v1::Lease;
use numo_api::marks;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// Longest annotation that is read (bytes): more is nobody's notice.
const MAX_BYTES: usize = 16 * 1024;

/// What the numo that leads knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Notice {
    /// Its version.
    pub version: String,
    /// Why node leases cannot be had, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leases_unavailable: Option<String>,
    /// Namespaces besides its own in which MutexRunConfigs are watched.
    pub run_namespaces: Vec<String>,
    /// Namespaces besides its own in which Plans are watched.
    pub plan_namespaces: Vec<String>,
    /// What strangers wrote more of than is kept: `mutexrules of namespace team`. The first few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
}

impl Notice {
    /// The notice on a leader Lease; none by a numo that gives none.
    pub fn of(lease: &Lease) -> Option<Self> {
        let text = lease.metadata.annotations.as_ref()?.get(marks::SETTINGS)?;
        (text.len() <= MAX_BYTES).then(|| serde_json::from_str(text).ok())?
    }

    /// Puts the notice on a leader Lease.
    pub fn put(&self, lease: &mut Lease) {
        if let Ok(text) = serde_json::to_string(self) {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(marks::SETTINGS.to_owned(), text);
        }
    }
}

/// The notice, shared by who knows and who renews the Lease.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Notice>>);

impl Board {
    /// The notice as it is now.
    pub fn read(&self) -> Notice {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts up another notice: the next renewal of the Lease carries it.
    pub fn write(&self, notice: Notice) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = notice;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_back_and_what_is_none_is_none() {
        let mut lease = Lease::default();
        assert_eq!(Notice::of(&lease), None);
        let notice = Notice {
            version: "0.1.0".to_owned(),
            leases_unavailable: Some("there is no namespace".to_owned()),
            ..Notice::default()
        };
        notice.put(&mut lease);
        assert_eq!(Notice::of(&lease), Some(notice));
        for text in ["no JSON", &"x".repeat(MAX_BYTES + 1)] {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert(marks::SETTINGS.to_owned(), text.to_owned());
            assert_eq!(Notice::of(&lease), None);
        }
    }
}

//! Watches what a rule read while it makes a node wait, so that it is asked again at once when that changes. It sees
//! that something changed, not what: only metadata is sent, and of them no more than the version is read. What cannot be watched is asked
//! again in its time.

use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
    core::{ObjectList, Request},
    discovery::ApiResource,
};
use numo_plugin::shares::Shares;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// What is watched at once, of all evaluations; what is beyond is asked again in its time.
pub(super) const WATCHES: u64 = 128;
/// Reads of one evaluation that are watched; one with more is asked again in its time.
const MARKS: usize = 16;
/// Pause after a watch that failed.
const PAUSE: Duration = Duration::from_secs(5);
/// Seconds of one watch.
const WATCH_SECONDS: u32 = 280;

/// Something that was read, as it was then.
#[derive(Clone, Debug)]
pub struct Mark {
    resource: ApiResource,
    namespace: Option<String>,
    /// One object; none for a list.
    name: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    /// Of the object, none if it did not exist; or of the list.
    version: Option<String>,
}

impl Mark {
    /// An object.
    pub fn object(
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
        version: Option<&str>,
    ) -> Self {
        Self {
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            label_selector: None,
            field_selector: Some(format!("metadata.name={name}")),
            version: version.map(str::to_owned),
        }
    }

    /// A list.
    pub fn list(
        resource: &ApiResource,
        namespace: Option<&str>,
        (label_selector, field_selector): (Option<&str>, Option<&str>),
        version: Option<&str>,
    ) -> Self {
        Self {
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned),
            name: None,
            label_selector: label_selector.map(str::to_owned),
            field_selector: field_selector.map(str::to_owned),
            version: version.map(str::to_owned),
        }
    }

    /// Whether this is the same place, whatever was found there.
    pub fn is_at(&self, other: &Self) -> bool {
        self.resource == other.resource
            && self.namespace == other.namespace
            && self.name == other.name
            && self.label_selector == other.label_selector
            && self.field_selector == other.field_selector
    }
}

/// What is read of an object: its labels and `managedFields` are as many and as deep as whoever wrote them likes.
#[derive(Clone, Deserialize)]
struct Brief {
    metadata: BriefMetadata,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BriefMetadata {
    resource_version: Option<String>,
}

/// True as soon as one of these has changed; false if none could be watched any more, or after `longest`, when the rule
/// is asked again anyway.
///
/// The rules of each namespace have their share of the watches.
pub async fn any_changes(
    client: Client,
    marks: Vec<Mark>,
    longest: Duration,
    (watches, namespace): (&Shares, &str),
) -> bool {
    if marks.len() > MARKS {
        return false;
    }
    let mut watches: FuturesUnordered<_> = marks
        .into_iter()
        .filter_map(|mark| Some((mark, watches.try_take(namespace, 1)?)))
        .map(|(mark, watch)| {
            let client = client.clone();
            async move {
                let changed = changes(client, mark).await;
                drop(watch);
                changed
            }
        })
        .collect();
    let any = async {
        while let Some(changed) = watches.next().await {
            if changed {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(longest, any).await.unwrap_or(false)
}

/// True when it has changed, false when it cannot be watched.
async fn changes(client: Client, mark: Mark) -> bool {
    let api: Api<DynamicObject> = match &mark.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &mark.resource),
        None => Api::all_with(client.clone(), &mark.resource),
    };
    let requests = Request::new(api.resource_url());
    let mut version = match (&mark.name, &mark.version) {
        (Some(_), _) => match now(&client, &requests, &mark).await {
            // What was read may be older than any watch can begin.
            Now::Same(version) => version,
            Now::Other => return true,
            Now::Unknown => return false,
        },
        (None, Some(version)) => version.clone(),
        (None, None) => return false,
    };
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    params.label_selector.clone_from(&mark.label_selector);
    params.field_selector.clone_from(&mark.field_selector);
    loop {
        let began = Instant::now();
        let Ok(request) = requests.watch_metadata(&params, &version) else {
            return false;
        };
        let stream = match client.request_events::<Brief>(request).await {
            Ok(stream) => stream,
            Err(kube::Error::Api(status)) if status.code == 410 => return true,
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 404 | 405) => return false,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            match event {
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)) => return true,
                Ok(WatchEvent::Error(status)) if status.code == 410 => return true,
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            }
        }
        // One that ends at once must not be begun again at once, whatever ended it.
        tokio::time::sleep(PAUSE.saturating_sub(began.elapsed())).await;
    }
}

/// What an object is now, beside what was read.
enum Now {
    /// The same; a watch may begin at this version.
    Same(String),
    Other,
    Unknown,
}

async fn now(client: &Client, requests: &Request, mark: &Mark) -> Now {
    let mut params = ListParams::default();
    params.field_selector.clone_from(&mark.field_selector);
    let Ok(request) = requests.list_metadata(&params) else {
        return Now::Unknown;
    };
    let Ok(found) = client.request::<ObjectList<Brief>>(request).await else {
        return Now::Unknown;
    };
    let version = found
        .items
        .first()
        .and_then(|item| item.metadata.resource_version.as_ref());
    match found.metadata.resource_version {
        _ if version != mark.version.as_ref() => Now::Other,
        Some(version) => Now::Same(version),
        None => Now::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_version_of_an_object_is_read() {
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let object = format!(
            r#"{{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
              "metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {fields}}}], "resourceVersion": "7"}}}}"#
        );
        let event = format!(r#"{{"type": "MODIFIED", "object": {object}}}"#);
        let event: WatchEvent<Brief> = serde_json::from_str(&event).unwrap();
        assert!(matches!(event, WatchEvent::Modified(_)));
        let list = format!(
            r#"{{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {{"resourceVersion": "9"}},
              "items": [{object}]}}"#
        );
        let list: ObjectList<Brief> = serde_json::from_str(&list).unwrap();
        assert_eq!(list.items[0].metadata.resource_version.as_deref(), Some("7"));
    }
}

//! Field masks: what to keep of an object, as RFC 6901 pointers in which `*` stands for every element. Pure. One walk
//! over the object, whatever the number of pointers.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Tokens of one pointer.
const DEEPEST: usize = 32;
/// Bytes of one pointer.
const LONGEST: usize = 1024;
/// What stays whatever the mask says.
const ALWAYS: [&str; 5] = [
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
];

/// What to keep; by default everything.
#[derive(Debug, Default)]
pub(super) struct Mask(Option<Branch>);

#[derive(Debug, Default)]
struct Branch {
    whole: bool,
    children: BTreeMap<String, Branch>,
    each: Option<Box<Branch>>,
}

impl Mask {
    /// The error is a sentence that names the pointer.
    pub(super) fn parse(pointers: &[String], most: u64) -> Result<Self, String> {
        if pointers.is_empty() {
            return Ok(Self(None));
        }
        if pointers.len() as u64 > most {
            return Err(format!(
                "a mask has at most {most} pointers, not {}",
                pointers.len()
            ));
        }
        let mut root = Branch::default();
        for pointer in pointers.iter().map(String::as_str).chain(ALWAYS) {
            root.add(pointer)?;
        }
        Ok(Self(Some(root)))
    }

    /// A copy of what the mask keeps of `object`. `metadata.managedFields` never stays.
    pub(super) fn apply(&self, object: &Value) -> Value {
        let mut kept = match &self.0 {
            Some(root) => keep(object, &[root]).unwrap_or_else(|| Value::Object(Map::new())),
            None => object.clone(),
        };
        if let Some(Value::Object(metadata)) = kept.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        kept
    }
}

impl Branch {
    fn add(&mut self, pointer: &str) -> Result<(), String> {
        let mut branch = self;
        if pointer.len() > LONGEST {
            return Err(format!("a pointer has at most {LONGEST} bytes"));
        }
        let Some(path) = pointer.strip_prefix('/') else {
            return match pointer {
                "" => {
                    branch.whole = true;
                    Ok(())
                }
                _ => Err(format!(
                    "{pointer:?} is no RFC 6901 pointer: it must begin with /"
                )),
            };
        };
        for (depth, token) in path.split('/').enumerate() {
            if depth == DEEPEST {
                return Err(format!("{pointer:?} has more than {DEEPEST} tokens"));
            }
            branch = match token {
                "*" => branch.each.get_or_insert_default(),
                _ => branch
                    .children
                    .entry(unescape(token).ok_or_else(|| {
                        format!("{pointer:?} is no RFC 6901 pointer: after ~ there must be 0 or 1")
                    })?)
                    .or_default(),
            };
        }
        branch.whole = true;
        Ok(())
    }
}

fn unescape(token: &str) -> Option<String> {
    let mut text = String::with_capacity(token.len());
    let mut characters = token.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(text)
}

/// None when nothing was met. Every element of a list that `*` meets stays, empty if need be, so that counts are true.
fn keep(value: &Value, branches: &[&Branch]) -> Option<Value> {
    if branches.iter().any(|branch| branch.whole) {
        return Some(value.clone());
    }
    let below = |token: &str| -> Vec<&Branch> {
        branches
            .iter()
            .flat_map(|branch| {
                branch
                    .children
                    .get(token)
                    .into_iter()
                    .chain(branch.each.as_deref())
            })
            .collect()
    };
    match value {
        Value::Object(map) => {
            let kept: Map<String, Value> = map
                .iter()
                .filter_map(|(key, value)| {
                    let below = below(key);
                    if below.is_empty() {
                        None
                    } else {
                        Some((key.clone(), keep(value, &below)?))
                    }
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(list) => {
            let all = branches.iter().any(|branch| branch.each.is_some());
            let kept: Vec<Value> = list
                .iter()
                .enumerate()
                .filter_map(|(index, value)| {
                    let below = below(&index.to_string());
                    if below.is_empty() {
                        return None;
                    }
                    let empty = || match value {
                        Value::Object(_) => Value::Object(Map::new()),
                        Value::Array(_) => Value::Array(Vec::new()),
                        _ => Value::Null,
                    };
                    keep(value, &below).or_else(|| all.then(empty))
                })
                .collect();
            (all || !kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(pointers: &[&str], expect: &Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "managedFields": [1],
                "labels": {"node.kubernetes.io/instance-type": "m5", "tier~x": "db"}},
            "spec": {"containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1"}}}, {"name": "d"}], "nodeName": "node-1"},
        });
        let pointers: Vec<_> = pointers.iter().map(|one| (*one).to_owned()).collect();
        let mut kept = Mask::parse(&pointers, 64).unwrap().apply(&pod);
        for token in ["apiVersion", "kind"] {
            assert!(kept.as_object_mut().unwrap().remove(token).is_some());
        }
        for token in ["name", "namespace", "uid"] {
            assert!(kept["metadata"].as_object_mut().unwrap().remove(token).is_some());
        }
        assert_eq!(&kept, expect, "{pointers:?}");
    }

    #[test]
    fn pointers_keep_what_they_point_at() {
        check(
            &["/spec/nodeName"],
            &json!({"metadata": {}, "spec": {"nodeName": "node-1"}}),
        );
        check(&["/spec/nothing"], &json!({"metadata": {}}));
        check(
            &[
                "/metadata/labels/node.kubernetes.io~1instance-type",
                "/metadata/labels/tier~0x",
            ],
            &json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": "m5", "tier~x": "db"}}}),
        );
        check(
            &["/spec/containers/1"],
            &json!({"metadata": {}, "spec": {"containers": [{"name": "d"}]}}),
        );
        check(
            &["/spec/containers/*/name"],
            &json!({"metadata": {}, "spec": {"containers": [{"name": "c"}, {"name": "d"}]}}),
        );
        check(
            &["/spec/containers/*/resources/limits"],
            &json!({"metadata": {}, "spec": {"containers": [{"resources": {"limits": {"cpu": "1"}}}, {}]}}),
        );
        check(
            &["/metadata"],
            &json!({"metadata": {"labels":
            {"node.kubernetes.io/instance-type": "m5", "tier~x": "db"}}}),
        );
    }

    #[test]
    fn no_mask_keeps_all_but_managed_fields() {
        let object = json!({"metadata": {"name": "a", "managedFields": []}, "spec": 1});
        assert_eq!(
            Mask::parse(&[], 64).unwrap().apply(&object),
            json!({"metadata": {"name": "a"}, "spec": 1})
        );
    }

    #[test]
    fn what_is_no_pointer_is_named() {
        for bad in ["spec", "/a~2", "/a~", &"/a".repeat(33), &"/".repeat(2000)] {
            assert!(Mask::parse(&[bad.to_owned()], 64).is_err(), "{bad}");
        }
        assert!(Mask::parse(&vec!["/a".to_owned(); 65], 64).is_err());
    }
}

//! Field masks: what to keep of an object, as RFC 6901 pointers in which `*` stands for every element. Pure. One walk
//! over the object, whatever the number of pointers.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize as _, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

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

    /// The text of what the mask keeps of an object's `text`. `metadata.managedFields` never stays. What is kept whole is not
    /// read into values, and what is not kept is skipped.
    ///
    /// Errors: it is no JSON object.
    pub(super) fn apply(&self, text: &str) -> serde_json::Result<String> {
        let text = without_managed_fields(text)?;
        let Some(root) = &self.0 else { return Ok(text) };
        let mut reader = serde_json::Deserializer::from_str(&text);
        let seen = Keep(vec![root]).deserialize(&mut reader)?;
        serde_json::to_string(&seen.kept.unwrap_or_else(|| Kept::Map(BTreeMap::new())))
    }
}

/// The object but for `metadata.managedFields`, which may be longer than all else.
fn without_managed_fields(text: &str) -> serde_json::Result<String> {
    let mut object: BTreeMap<String, Cow<'_, RawValue>> =
        serde_json::from_str::<BTreeMap<String, &RawValue>>(text)?
            .into_iter()
            .map(|(key, value)| (key, Cow::Borrowed(value)))
            .collect();
    if let Some(metadata) = object.get("metadata")
        && let Ok(mut fields) = serde_json::from_str::<BTreeMap<String, &RawValue>>(metadata.get())
        && fields.remove("managedFields").is_some()
    {
        let metadata = serde_json::value::to_raw_value(&fields)?;
        object.insert("metadata".to_owned(), Cow::Owned(metadata));
    }
    serde_json::to_string(&object)
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

/// What is kept of a value.
#[derive(Debug)]
enum Kept<'t> {
    Whole(&'t RawValue),
    Map(BTreeMap<String, Kept<'t>>),
    List(Vec<Kept<'t>>),
    Null,
}

impl Serialize for Kept<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Whole(raw) => raw.serialize(serializer),
            Self::Map(map) => serializer.collect_map(map),
            Self::List(list) => serializer.collect_seq(list),
            Self::Null => serializer.serialize_unit(),
        }
    }
}

/// What the branches keep of the value that is read next.
struct Keep<'m>(Vec<&'m Branch>);

struct Seen<'t> {
    /// None when nothing was met.
    kept: Option<Kept<'t>>,
    /// What stands for it in a list that `*` meets: every element of one stays, so that counts are true.
    empty: Kept<'t>,
}

impl<'m> Keep<'m> {
    fn below(&self, token: &str) -> Vec<&'m Branch> {
        let of = |branch: &&'m Branch| [branch.children.get(token), branch.each.as_deref()];
        self.0.iter().flat_map(of).flatten().collect()
    }

    const fn of_scalar<'t>() -> Seen<'t> {
        Seen {
            kept: None,
            empty: Kept::Null,
        }
    }
}

impl<'t> DeserializeSeed<'t> for Keep<'_> {
    type Value = Seen<'t>;

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<Seen<'t>, D::Error> {
        if self.0.iter().any(|branch| branch.whole) {
            return Ok(Seen {
                kept: Some(Kept::Whole(<&RawValue>::deserialize(reader)?)),
                empty: Kept::Null,
            });
        }
        reader.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Keep<'_> {
    type Value = Seen<'t>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut entries: A) -> Result<Seen<'t>, A::Error> {
        let mut kept = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            let below = self.below(&key);
            if below.is_empty() {
                entries.next_value::<IgnoredAny>()?;
            } else if let Some(value) = entries.next_value_seed(Keep(below))?.kept {
                kept.insert(key, value);
            }
        }
        Ok(Seen {
            kept: (!kept.is_empty()).then_some(Kept::Map(kept)),
            empty: Kept::Map(BTreeMap::new()),
        })
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut elements: A) -> Result<Seen<'t>, A::Error> {
        let all = self.0.iter().any(|branch| branch.each.is_some());
        let mut kept = Vec::new();
        for index in 0_usize.. {
            let below = self.below(&index.to_string());
            if below.is_empty() {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
                continue;
            }
            let Some(seen) = elements.next_element_seed(Keep(below))? else {
                break;
            };
            kept.extend(seen.kept.or_else(|| all.then_some(seen.empty)));
        }
        Ok(Seen {
            kept: (all || !kept.is_empty()).then_some(Kept::List(kept)),
            empty: Kept::List(Vec::new()),
        })
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Seen<'t>, E> {
        Ok(Self::of_scalar())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Seen<'t>, E> {
        Ok(Self::of_scalar())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Seen<'t>, E> {
        Ok(Self::of_scalar())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Seen<'t>, E> {
        Ok(Self::of_scalar())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Seen<'t>, E> {
        Ok(Self::of_scalar())
    }

    fn visit_unit<E: Error>(self) -> Result<Seen<'t>, E> {
        Ok(Self::of_scalar())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
        let kept = Mask::parse(&pointers, 64)
            .unwrap()
            .apply(&pod.to_string())
            .unwrap();
        let mut kept: Value = serde_json::from_str(&kept).unwrap();
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
            Mask::parse(&[], 64).unwrap().apply(&object.to_string()).unwrap(),
            json!({"metadata": {"name": "a"}, "spec": 1}).to_string()
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

//! `-o custom-columns`: a table whose columns are JSONPath expressions, one row an object.

use crate::{
    aligned,
    error::CliError,
    jsonpath::{Expression, shown},
};
use serde_json::Value;
use std::str::FromStr;

/// What stands where an expression finds nothing, as kubectl writes it.
const NONE: &str = "<none>";
/// The list of objects within a document that is not a list itself: each of its items is one row.
const LISTS: [&str; 2] = ["owners", "items"];

/// Columns: a head and an expression each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<(String, Expression)>);

impl FromStr for Columns {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let wrong = |part: &str| format!("custom-columns: found {part:?}, wanted NAME:.path,NAME:.path");
        let columns = parts(given).into_iter().map(|part| {
            let (head, path) = part.split_once(':').ok_or_else(|| wrong(&part))?;
            if head.is_empty() || path.is_empty() {
                return Err(wrong(&part));
            }
            Ok((head.to_owned(), Expression::relaxed(path)?))
        });
        Ok(Self(columns.collect::<Result<_, String>>()?))
    }
}

/// Parted by commas that are in no brackets.
fn parts(given: &str) -> Vec<String> {
    let (mut all, mut part, mut depth) = (Vec::new(), String::new(), 0_u32);
    for letter in given.chars() {
        match letter {
            ',' if depth == 0 => {
                all.push(std::mem::take(&mut part));
                continue;
            }
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        part.push(letter);
    }
    all.push(part);
    all
}

impl Columns {
    /// A file as kubectl has it: a line of heads, and a line of as many expressions.
    pub fn of_file(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::split_whitespace);
        let (Some(heads), Some(paths)) = (lines.next(), lines.next()) else {
            return Err("custom-columns-file: wanted a line of heads and a line of expressions".to_owned());
        };
        let (heads, paths): (Vec<_>, Vec<_>) = (heads.collect(), paths.collect());
        if heads.is_empty() || heads.len() != paths.len() {
            return Err(format!(
                "custom-columns-file: found {} heads and {} expressions, wanted as many",
                heads.len(),
                paths.len()
            ));
        }
        let columns = heads
            .into_iter()
            .zip(paths)
            .map(|(head, path)| Ok::<_, String>((head.to_owned(), Expression::relaxed(path)?)));
        Ok(Self(columns.collect::<Result<_, String>>()?))
    }

    /// The table of a document: a row for each of its objects.
    pub fn table(&self, document: &Value) -> Result<String, CliError> {
        let mut rows = vec![self.0.iter().map(|(head, _)| head.clone()).collect::<Vec<_>>()];
        for object in objects(document) {
            let cells = self.0.iter().map(|(_, path)| {
                let found = path.find(object, object)?;
                let found: Vec<String> = found
                    .into_iter()
                    .filter(|one| !one.is_null())
                    .map(shown)
                    .collect();
                Ok::<_, String>(if found.is_empty() {
                    NONE.to_owned()
                } else {
                    found.join(",")
                })
            });
            rows.push(cells.collect::<Result<_, String>>().map_err(CliError::Usage)?);
        }
        let lines = aligned::lines(rows.iter().map(|row| row.iter().map(String::as_str)));
        let mut text = String::new();
        for line in lines {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        Ok(text)
    }
}

/// The objects of a document: the items of a list, or the document itself.
fn objects(document: &Value) -> Vec<&Value> {
    let list = LISTS.iter().find_map(|name| document.get(name)?.as_array());
    match document.as_array().or(list) {
        Some(list) => list.iter().collect(),
        None => vec![document],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_has_a_row_for_each_of_its_objects() {
        let columns: Columns = "NAME:.name,STEPS:.steps[*]".parse().unwrap();
        let found = columns.table(&json!({"owners": [{"name": "a", "steps": [1, 2]}], "idle": "x"}));
        assert_eq!(found.unwrap(), "NAME   STEPS\na      1,2\n");
        let found = columns.table(&json!({"name": "one"}));
        assert_eq!(found.unwrap(), "NAME   STEPS\none    <none>\n");
    }

    #[test]
    fn a_file_has_heads_and_expressions() {
        let columns = Columns::of_file("NAME   WHY\n.name  .reason\n").unwrap();
        let found = columns.table(&json!([{"name": "a", "reason": "b"}]));
        assert_eq!(found.unwrap(), "NAME   WHY\na      b\n");
        assert!(Columns::of_file("NAME WHY\n.name").is_err());
        assert!(Columns::of_file("").is_err());
    }
}

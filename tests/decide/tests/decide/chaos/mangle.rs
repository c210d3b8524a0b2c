//! Values in places where nobody would write them: whatever the type still reads is what strangers may have written.

use super::dice::Dice;
use serde_json::{Value, json};

/// A value from nowhere.
fn odd(dice: &mut Dice) -> Value {
    match dice.below(22) {
        0 => Value::Null,
        1 => json!(0),
        2 => json!(-1),
        3 => json!(i32::MAX),
        4 => json!(i32::MIN),
        5 => json!(i64::MAX),
        6 => json!(i64::MIN),
        7 => json!(""),
        8 => json!("100%"),
        9 => json!("0%"),
        10 => json!("-3"),
        11 => json!([]),
        12 => json!({}),
        13 => json!(true),
        14 => json!(false),
        15 => json!("ż\u{202e}\n\u{0}日"),
        16 => json!("x".repeat(3000)),
        17 => json!("2027-01-15T08:00:00Z"),
        18 => json!("9999-12-31T23:59:59Z"),
        19 => json!("0000-01-01T00:00:00Z"),
        20 => json!("a"),
        _ => json!(1),
    }
}

/// One place of a value changed: by one of the seeds, or anyhow.
pub fn mangled(mut text: Value, seeds: &[Value], dice: &mut Dice) -> Value {
    let seed = dice.pick(seeds).filter(|_| dice.one_in(2));
    if let (Value::Object(all), Some(Value::Object(more))) = (&mut text, seed) {
        all.extend(more.clone());
    } else {
        at_random(&mut text, dice, 0);
    }
    text
}

/// Changes one place of a value of whatever type, if that can still read it.
macro_rules! mangle {
    ($value:expr, $seeds:expr, $dice:expr) => {
        for _ in 0..6 {
            let text = serde_json::to_value(&$value).expect("JSON");
            let text = super::mangle::mangled(text, $seeds, $dice);
            if let Ok(read) = serde_json::from_value(text)
                && read != $value
            {
                $value = read;
                break;
            }
        }
    };
}
pub(super) use mangle;

fn at_random(value: &mut Value, dice: &mut Dice, depth: usize) {
    let here = depth > 0 && dice.one_in(4);
    match value {
        Value::Object(all) if !here && !all.is_empty() => {
            let keys: Vec<String> = all.keys().cloned().collect();
            let key = dice.one_of(&keys);
            if dice.one_in(12) {
                all.remove(&key);
            } else if let Some(inner) = all.get_mut(&key) {
                at_random(inner, dice, depth + 1);
            }
        }
        Value::Array(all) if !here && !all.is_empty() => {
            let index = dice.below(all.len());
            match dice.below(5) {
                0 => {
                    all.remove(index);
                }
                1 => {
                    let again = all[index].clone();
                    all.push(again);
                }
                2 => all.reverse(),
                _ => at_random(&mut all[index], dice, depth + 1),
            }
        }
        value => *value = odd(dice),
    }
}

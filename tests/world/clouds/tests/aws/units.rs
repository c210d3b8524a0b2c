//! Parts of the provider that need no cloud: names, tokens, the order of subnets, the meaning of codes.

use numo_provider_sdk::FailureCode;
use provider_aws::{
    call::meaning,
    group::{Group, Member},
    ids::{group, image, is_id, object_name, order},
    launch::Recipe,
    place::{Zones, sorted},
    token::Token,
};

#[test]
fn names_of_groups_become_names_of_objects() {
    assert_eq!(object_name("Workers-A"), "workers-a");
    let odd = object_name("Team/Workers A_");
    assert!(odd.starts_with("team-workers-a-"), "{odd}");
    assert_ne!(object_name("team/a"), object_name("team_a"));
    assert!(object_name(&"é".repeat(255)).len() <= 253);
    assert!(object_name("///").starts_with("group-"));
}

#[test]
fn a_list_is_ordered_and_equals_stay() {
    let mut list = [(2, 'a'), (1, 'b'), (2, 'c'), (0, 'd'), (1, 'e')];
    order(&mut list, |a, b| a.0 < b.0);
    assert_eq!(list, [(0, 'd'), (1, 'b'), (1, 'e'), (2, 'a'), (2, 'c')]);
    order(&mut [0_u8; 0], |a, b| a < b);
}

#[test]
fn ids_have_their_form() {
    assert!(is_id("i-0123456789abcdef0", "i-") && is_id("i-12345678", "i-"));
    for wrong in [
        "i-",
        "i-xyz45678",
        "i-1234567",
        "i-0123456789abcdef01",
        "ami-12345678",
    ] {
        assert!(!is_id(wrong, "i-"), "{wrong}");
    }
    assert_eq!(image("AMI-12345678").unwrap(), "ami-12345678");
    assert!(image("resolve:ssm:/x").is_err());
    assert!(group("a:b").is_err() && group("").is_err() && group("a b").is_ok());
}

fn placed(recipe: Option<Recipe>) -> Token {
    Token::Placed {
        at: 100,
        from: 110,
        subnets: vec!["subnet-0a".to_owned(), "subnet-0b".to_owned()],
        recipe,
    }
}

#[test]
fn a_token_comes_back_as_it_was_until_it_is_too_old() {
    let recipe = Recipe {
        template: "lt-0".to_owned(),
        version: "$Default".to_owned(),
        instance_type: Some("m5.large".to_owned()),
        placement_group: None,
        tags: vec![("a".to_owned(), "ä".to_owned())],
    };
    for token in [placed(Some(recipe)), placed(None), Token::Made { at: 100 }] {
        let text = token.write();
        assert_eq!(Token::read(Some(&text), 105), Some(token));
        assert_eq!(Token::read(Some(&text), 500), None, "too old");
        assert_eq!(Token::read(Some(&text), 50), None, "from the future");
    }
}

#[test]
fn a_large_recipe_is_left_out_and_strange_texts_are_none() {
    let recipe = Recipe {
        tags: (0..50).map(|n| (format!("key-{n}"), "v".repeat(200))).collect(),
        ..Recipe::default()
    };
    let text = placed(Some(recipe)).write();
    assert!(text.len() < 4096);
    assert_eq!(Token::read(Some(&text), 100), Some(placed(None)));
    for strange in [
        "",
        "x",
        "{}",
        "[1]",
        r#"{"at":1,"from":1,"subnets":[]}"#,
        r#"{"at":-1,"made":1}"#,
    ] {
        assert_eq!(Token::read(Some(strange), 1), None, "{strange}");
    }
}

fn member(zone: &str, lifecycle: &str) -> Member {
    Member {
        id: "i-0".to_owned(),
        zone: zone.to_owned(),
        lifecycle: lifecycle.to_owned(),
    }
}

#[test]
fn the_zone_with_the_fewest_members_goes_first_and_each_zone_before_one_twice() {
    let group = Group {
        members: vec![
            member("a", "InService"),
            member("a", "InService"),
            member("b", "InService"),
            member("c", "Terminating"),
            member("c", "Terminating:Wait"),
        ],
        ..Group::default()
    };
    let subnets = ["s-a", "s-a2", "s-b", "s-c"].map(str::to_owned);
    let zones = [("s-a", "a"), ("s-a2", "a"), ("s-b", "b"), ("s-c", "c")];
    let zones = zones
        .map(|(subnet, zone)| (subnet.to_owned(), zone.to_owned()))
        .into();
    let order = sorted(&group, &subnets, &zones, "r");
    assert_eq!(order.first().map(String::as_str), Some("s-c"));
    assert_eq!(order.get(1).map(String::as_str), Some("s-b"));
    assert_eq!(order.len(), 4);
    assert_eq!(order, sorted(&group, &subnets, &zones, "r"), "the same again");
}

#[test]
fn equal_zones_are_not_always_tried_in_the_same_order() {
    let subnets = ["s-a", "s-b", "s-c"].map(str::to_owned);
    let zones = [("s-a", "a"), ("s-b", "b"), ("s-c", "c")];
    let zones: Zones = zones.map(|(s, z)| (s.to_owned(), z.to_owned())).to_vec();
    let first =
        |n: usize| sorted(&Group::default(), &subnets, &zones, &format!("request-{n}")).swap_remove(0);
    let firsts: std::collections::BTreeSet<String> = (0..30).map(first).collect();
    assert_eq!(firsts.len(), 3, "{firsts:?}");
}

#[test]
fn codes_have_their_meaning() {
    for (code, words, wanted) in [
        ("RequestLimitExceeded", "", Some(FailureCode::Throttled)),
        ("VcpuLimitExceeded", "", Some(FailureCode::Exhausted)),
        ("InsufficientInstanceCapacity", "", Some(FailureCode::Exhausted)),
        ("UnauthorizedOperation", "", Some(FailureCode::Denied)),
        ("InvalidAMIID.NotFound", "", Some(FailureCode::NotFound)),
        ("InvalidAMIID.Malformed", "", Some(FailureCode::Invalid)),
        (
            "ValidationError",
            "AutoScalingGroup name not found",
            Some(FailureCode::NotFound),
        ),
        (
            "ValidationError",
            "Currently, desiredSize equals minSize (1)",
            Some(FailureCode::Exhausted),
        ),
        ("ScalingActivityInProgress", "", Some(FailureCode::Unavailable)),
        ("SomethingNew", "", None),
    ] {
        assert_eq!(meaning(code, words), wanted, "{code}");
    }
}

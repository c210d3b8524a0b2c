//! Answers that no cloud should give. Nothing may panic, nothing may be believed, and no machine may be made or deleted by them.

use super::*;
use numo_clouds::azure::Raw;
use numo_provider_sdk::host::Response;

/// Bodies of a stranger.
fn bodies() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "null",
        "[]",
        "3",
        "\"x\"",
        "{",
        "{\"value\":[",
        "{}",
        "{\"value\":{}}",
        "{\"value\":[null,3,[],{}]}",
        "{\"value\":[{\"instanceId\":3}]}",
        "{\"value\":[{\"instanceId\":\"../../x\",\"properties\":[]}]}",
        "{\"value\":[],\"nextLink\":\"https://evil.example/steal\"}",
        "{\"value\":[],\"nextLink\":\"https://management.azure.com.evil.example/steal\"}",
        "{\"value\":[],\"nextLink\":7}",
        "{\"value\":[],\"nextLink\":\"https://management.azure.com/subscriptions/again?api-version=2024-07-01\"}",
        "{\"sku\":{\"capacity\":-1},\"etag\":3}",
        "{\"sku\":{\"capacity\":18446744073709551615},\"etag\":\"x\",\"tags\":[]}",
        "{\"sku\":{\"capacity\":1e300}}",
        "{\"status\":3}",
        "{\"status\":\"Failed\",\"error\":[]}",
        "{\"statuses\":[null,{\"code\":3},{\"code\":\"/\"}]}",
        "{\"error\":{\"code\":7,\"message\":[]}}",
        "{\"error\":\"x\"}",
        "{\"error\":{\"code\":\"NotFound\u{e9}\u{e9}\u{e9}\",\"details\":[{\"code\":\"QuotaExceeded\"},3]}}",
    ];
    let mut bodies: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    bodies.push(vec![0xff, 0xfe, 0, 1, 2]);
    bodies.push("[".repeat(100_000).into_bytes());
    bodies.push(
        format!(
            "{{\"error\":{{\"code\":\"{0}\",\"message\":\"{0}\"}}}}",
            "é".repeat(50_000)
        )
        .into_bytes(),
    );
    bodies.push(format!("{{\"value\":[{}null]}}", "{},".repeat(50_000)).into_bytes());
    let many: Vec<String> = (0..6000)
        .map(|number| format!("{{\"instanceId\":\"{}\"}}", number * 7))
        .collect();
    bodies.push(format!("{{\"value\":[{}]}}", many.join(",")).into_bytes());
    bodies
}

/// Every operation; what it says is bounded.
fn everything(world: &World) {
    let id = State::provider_id(POOL, 0);
    let operation =
        "operation=https://management.azure.com/subscriptions/x/operations/1?api-version=2024-07-01";
    let failures = [
        Cloud::groups(world, UID).err(),
        Cloud::group_image(world, &group()).err(),
        Cloud::set_group_image(world, &group(), "a:b:c:1", None).err(),
        Cloud::set_group_image(world, &group(), "a:b:c:1", Some(operation)).err(),
        Cloud::create_node(world, &group(), "numo-a", None).err(),
        Cloud::create_node(world, &group(), "numo-a", Some(operation)).err(),
        Cloud::find_node(world, &group(), "numo-a").err(),
        Cloud::node_image(world, &id).err(),
        Cloud::node_state(world, &id).err(),
    ];
    for failure in failures.into_iter().flatten() {
        assert!(failure.message.len() <= 1024 && !failure.message.is_empty());
    }
}

fn world_of(answer: impl Fn(&Request) -> Response + 'static) -> World {
    World {
        cloud: Some(Box::new(move |request| Ok(answer(request)))),
        config_json: config(),
        ..World::default()
    }
}

#[test]
fn odd_answers_to_every_request_are_failures_and_no_panic() {
    for status in [200, 201, 202, 204, 302, 400, 404, 409, 412, 429, 500, 999, 0] {
        for body in bodies() {
            everything(&world_of(move |_| Response {
                status,
                headers: vec![
                    ("retry-after".to_owned(), "never".to_owned()),
                    ("Location".to_owned(), "ftp://x".to_owned()),
                ],
                body: body.clone(),
            }));
        }
    }
}

#[test]
fn the_credential_goes_to_no_other_host() {
    let seen = Rc::new(Cell::new(0));
    let world = {
        let seen = seen.clone();
        world_of(move |request| {
            assert!(
                request.url.starts_with("https://management.azure.com/"),
                "{}",
                request.url
            );
            seen.set(seen.get() + 1);
            Response {
                status: 200,
                headers: vec![
                    ("azure-asyncoperation".to_owned(), "https://management.azure.com@evil.example/x".to_owned()),
                    ("location".to_owned(), "https://evil.example/management.azure.com/".to_owned()),
                ],
                body: br#"{"sku":{"capacity":3},"etag":"1","value":[],"nextLink":"https://evil.example/x","properties":{"upgradePolicy":{"mode":"Manual"}}}"#.to_vec(),
            }
        })
    };
    everything(&world);
    let failure = Cloud::groups(&world, UID).unwrap_err();
    assert!(
        failure.message.contains("https://evil.example/x"),
        "{}",
        failure.message
    );
    let evil = "operation=https://evil.example/x";
    let _ = Cloud::create_node(&world, &group(), "numo-a", Some(evil));
    let _ = Cloud::set_group_image(&world, &group(), "a:b:c:1", Some(evil));
    assert!(seen.get() > 8);
}

#[test]
fn a_list_without_end_ends() {
    let seen = Rc::new(Cell::new(0));
    let world = {
        let seen = seen.clone();
        world_of(move |_| {
            seen.set(seen.get() + 1);
            Response {
                status: 200,
                headers: Vec::new(),
                body:
                    br#"{"value":[],"nextLink":"https://management.azure.com/next?api-version=2024-07-01"}"#
                        .to_vec(),
            }
        })
    };
    let failure = Cloud::groups(&world, UID).unwrap_err();
    assert!(
        failure.message.contains("more than 50 pages"),
        "{}",
        failure.message
    );
    assert_eq!(seen.get(), 50);
}

#[test]
fn an_odd_answer_at_any_place_makes_no_second_machine_and_deletes_none() {
    for line in ["GET /subscriptions", "virtualMachines", "PATCH", "operations"] {
        for status in [200, 404, 500] {
            for body in ["", "{}", "{\"value\":[", "{\"value\":[]}", "<html/>"] {
                let azure = started(pool());
                let mut world = world(&azure);
                let Creation::Pending(pending) =
                    Cloud::create_node(&world, &group(), "numo-a", None).unwrap()
                else {
                    panic!("made at once");
                };
                let raw = Raw {
                    line: line.to_owned(),
                    status,
                    body: body.as_bytes().to_vec(),
                };
                azure.state().raw = Some(raw);
                let mut token = Some(pending.token);
                for _ in 0..4 {
                    if let Ok(Creation::Pending(pending)) =
                        Cloud::create_node(&world, &group(), "numo-a", token.as_deref())
                    {
                        token = Some(pending.token);
                    }
                    let _ = Cloud::find_node(&world, &group(), "numo-a");
                }
                azure.state().raw = None;
                made(&mut world, "numo-a").unwrap();
                assert_eq!(staying(&azure, POOL), [0, 1, 2, 3], "{line} {status} {body}");
            }
        }
    }
}

//! Answers of a stranger: cut off, huge, of other types, without end. Nothing panics, nothing is made or deleted by them, and no machine is said to be
//! gone.

use crate::{Fixture, UID, provider_id};
use numo_provider_sdk::{
    Creation, Failure, NodeState, Provider,
    fake::World,
    host::{Request, Response},
};
use provider_gcp::Gcp;
use std::{cell::Cell, rc::Rc};

const REQUEST: &str = "numo-0123456789abcdefghij";

/// Bodies that no cloud should send.
fn bodies() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "null",
        "[]",
        "3",
        "\"text\"",
        "{",
        "{\"name\":",
        "{}",
        "<html>Service</html>",
        "\u{0}\u{1}",
        r#"{"name": 3, "status": [], "metadata": "x", "disks": {}, "items": 7, "managedInstances": {"a": 1}, "currentActions": []}"#,
        r#"{"name": "workers-0000", "status": null, "metadata": {"items": [null, 3, {"key": "created-by", "value": {}}]}, "disks": [null]}"#,
        r#"{"name": "workers", "baseInstanceName": "é../..", "instanceTemplate": "https://evil.example/x", "versions": 3}"#,
        r#"{"name": "workers", "baseInstanceName": 9, "instanceTemplate": "projects/../global/instanceTemplates/x"}"#,
        r#"{"error": "x"}"#,
        r#"{"error": {"code": "404", "errors": [], "message": 3}}"#,
        r#"{"error": {"errors": [{"reason": "notFound", "message": null}]}}"#,
        r#"{"status": "DONE", "name": "../../../x", "error": {"errors": [3]}}"#,
        r#"{"status": "RUNNING", "name": ""}"#,
        r#"{"items": {"zones/../x": {"instanceGroupManagers": [{"name": "a/b", "instanceTemplate": 3}]}}}"#,
        r#"{"items": [{"name": null, "properties": 3}], "nextPageToken": {"a": 1}}"#,
    ];
    let mut bodies: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    bodies.push("[".repeat(100_000).into_bytes());
    bodies.push(format!("{{\"name\": {}1{}}}", "[".repeat(500), "]".repeat(500)).into_bytes());
    bodies.push(format!("{{\"message\": \"{}\"}}", "x".repeat(9_000_000)).into_bytes());
    bodies.push(format!("{{\"error\": {{\"message\": \"{}\"}}}}", "é\\n".repeat(10_000)).into_bytes());
    bodies.push(vec![0xff; 1000]);
    bodies
}

/// Everything that a provider is asked.
fn all(world: &World, fixture: &Fixture, id: &str) -> Vec<Result<(), Failure>> {
    let group = &fixture.workers;
    vec![
        Gcp::node_image(world, id).map(drop),
        Gcp::scaling_group_id(world, id).map(drop),
        Gcp::create_node(world, group, REQUEST, None).map(drop),
        Gcp::find_node(world, group, REQUEST).map(drop),
        Gcp::delete_node(world, id),
        Gcp::node_state(world, id).map(drop),
        Gcp::group_image(world, group).map(drop),
        Gcp::set_group_image(world, group, &fixture.new_image, None).map(drop),
        Gcp::groups(world, UID).map(drop),
    ]
}

#[test]
fn whatever_every_request_is_answered_nothing_panics() {
    let fixture = Fixture::new();
    let id = provider_id(&fixture.workers, "workers-0000");
    for body in bodies() {
        for status in [200, 204, 301, 400, 403, 404, 409, 429, 500, 503] {
            let answer = Response {
                status,
                headers: vec![("retry-after".to_owned(), "soon".to_owned())],
                body: body.clone(),
            };
            let world = World {
                cloud: Some(Box::new(move |_: &Request| Ok(answer.clone()))),
                ..fixture.world()
            };
            for result in all(&world, &fixture, &id) {
                let Err(failure) = result else { continue };
                assert!(
                    failure.message.len() <= 1024 && !failure.message.contains('\n'),
                    "{failure:?}"
                );
            }
            if status != 404 {
                let state = Gcp::node_state(&world, &id);
                assert_ne!(
                    state,
                    Ok(NodeState::Terminated),
                    "{status} {}",
                    String::from_utf8_lossy(&body)
                );
            }
        }
    }
}

#[test]
fn whichever_one_answer_is_odd_nothing_is_made_twice_or_deleted_by_it() {
    for body in bodies().into_iter().filter(|body| body.len() < 100_000) {
        for at in 1..=5 {
            let fixture = Fixture::new();
            let id = provider_id(&fixture.workers, "workers-0000");
            let (world, count) = odd_at(&fixture, at, &body);
            if let Ok(Creation::Created(node)) = Gcp::create_node(&world, &fixture.workers, REQUEST, None) {
                assert!(node.node_name.ends_with(REQUEST), "{node:?}");
            }
            count.set(0);
            let state = Gcp::node_state(&world, &id);
            assert_ne!(
                state,
                Ok(NodeState::Terminated),
                "{}",
                String::from_utf8_lossy(&body)
            );
            count.set(0);
            // Setting goes on from whatever was said.
            let _: Result<_, _> = Gcp::set_group_image(&world, &fixture.workers, &fixture.new_image, None);
            assert!(
                fixture.size(&fixture.workers) >= 2,
                "{}",
                String::from_utf8_lossy(&body)
            );
            assert!(fixture.target(&fixture.workers) <= 3);
        }
    }
}

/// A host whose answer number `at` has another body, and counts from where a test sets it.
fn odd_at(fixture: &Fixture, at: usize, body: &[u8]) -> (World, Rc<Cell<usize>>) {
    let (send, body) = (numo_clouds::native(fixture.cloud.address()), body.to_vec());
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    let world = World {
        cloud: Some(Box::new(move |request: &Request| {
            counted.set(counted.get() + 1);
            let answer = send(request)?;
            let is_odd = counted.get() == at;
            Ok(if is_odd {
                Response {
                    body: body.clone(),
                    ..answer
                }
            } else {
                answer
            })
        })),
        ..fixture.world()
    };
    (world, count)
}

#[test]
fn a_list_without_end_has_one() {
    let fixture = Fixture::new();
    for (fresh, most) in [(true, 50), (false, 2)] {
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        let world = World {
            cloud: Some(Box::new(move |_: &Request| {
                counted.set(counted.get() + 1);
                let token = if fresh { counted.get() } else { 1 };
                Ok(Response {
                    status: 200,
                    headers: Vec::new(),
                    body: format!("{{\"items\": {{}}, \"nextPageToken\": \"{token}\"}}").into_bytes(),
                })
            })),
            ..fixture.world()
        };
        let problem = Gcp::groups(&world, UID).unwrap_err();
        assert!(problem.message.contains("page"), "{}", problem.message);
        assert_eq!(count.get(), most);
    }
}

#[test]
fn an_answer_about_another_thing_is_no_answer() {
    let fixture = Fixture::new();
    let body = br#"{"name": "somebody-else", "status": "RUNNING", "metadata": {"items": [
        {"key": "created-by", "value": "projects/1/zones/zone-a/instanceGroupManagers/workers"}]}}"#;
    let id = provider_id(&fixture.workers, "workers-0000");
    let canned = ("/instances/".to_owned(), 200, body.to_vec());
    fixture.cloud.lock().knobs.canned.push_back(canned);
    let problem = Gcp::delete_node(&fixture.world(), &id).unwrap_err();
    assert!(problem.message.contains("somebody-else"), "{}", problem.message);
    assert_eq!(fixture.cloud.lock().count("deleteInstances"), 0);
}

#[test]
fn a_404_of_something_in_between_is_no_machine_that_is_gone() {
    let fixture = Fixture::new();
    let id = provider_id(&fixture.workers, "workers-0000");
    for body in ["<html>404</html>", "", "{}", "not found"] {
        let canned = ("/instances/".to_owned(), 404, body.as_bytes().to_vec());
        fixture.cloud.lock().knobs.canned.push_back(canned);
        assert!(Gcp::node_state(&fixture.world(), &id).is_err(), "{body}");
    }
}

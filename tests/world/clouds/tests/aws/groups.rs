//! Which groups are a cluster's.

use crate::setup::{Aws1, WORKERS, tag};
use numo_provider_sdk::{FailureCode, NodeRole, Provider};
use provider_aws::Aws;

fn names(aws: &Aws1, uid: &str) -> Vec<String> {
    let groups = aws.call(|world| Aws::groups(world, uid)).unwrap();
    groups.into_iter().map(|group| group.group_id).collect()
}

#[test]
fn groups_are_found_by_their_tags_on_every_page() {
    let aws = Aws1::new();
    assert_eq!(names(&aws, "c1"), [WORKERS, "control"]);
    assert_eq!(names(&aws, "c2"), ["another-cluster"]);
    assert_eq!(names(&aws, "nobody"), [""; 0]);
    aws.cloud.state().page = 1;
    assert_eq!(names(&aws, "c1"), [WORKERS, "control"]);
    let groups = aws.call(|world| Aws::groups(world, "c1")).unwrap();
    let control = groups
        .iter()
        .find(|group| group.role == NodeRole::ControlPlane)
        .unwrap();
    assert_eq!(control.node_group_name, "control-plane_default");
    assert_eq!(control.autoscaling_group_name, "control");
}

#[test]
fn a_group_without_a_role_or_one_that_is_being_deleted_is_left_out_and_said() {
    let aws = Aws1::new();
    {
        let mut state = aws.cloud.state();
        let bastion = state.groups["control"].clone();
        state.groups.insert("bastion".to_owned(), bastion.clone());
        state.groups.get_mut("bastion").unwrap().tags[1].1 = "bastion".to_owned();
        state.groups.insert("ending".to_owned(), bastion);
        state.groups.get_mut("ending").unwrap().is_ending = true;
    }
    assert_eq!(names(&aws, "c1"), [WORKERS, "control"]);
    let lines = aws.lines.take();
    assert!(lines.iter().any(|line| line.contains("bastion")), "{lines:?}");
    let failure = aws.ask("ending", "numo-1a", None).unwrap_err();
    assert_eq!(failure.code, FailureCode::NotFound);
}

#[test]
fn other_tags_can_be_told() {
    let aws = Aws1::new();
    {
        let mut state = aws.cloud.state();
        let group = state.groups.get_mut(WORKERS).unwrap();
        group.tags = vec![tag("cluster", "prod"), tag("kind", "Worker"), tag("pool", "")];
    }
    *aws.settings.borrow_mut() =
        r#"{"region": "eu-central-1", "uidTag": "cluster", "roleTag": "kind", "nodeGroupTag": "pool"}"#
            .to_owned();
    let groups = aws.call(|world| Aws::groups(world, "prod")).unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].node_group_name, WORKERS);
}

#[test]
fn pages_without_end_are_a_failure() {
    let aws = Aws1::new();
    {
        let mut state = aws.cloud.state();
        let group = state.groups["control"].clone();
        for n in 0..60 {
            state.groups.insert(format!("more-{n}"), group.clone());
        }
        state.page = 1;
    }
    let failure = aws.call(|world| Aws::groups(world, "c1")).unwrap_err();
    assert_eq!(failure.code, FailureCode::Other);
    assert!(failure.message.contains("50 pages"), "{}", failure.message);
    assert_eq!(aws.sent(), 50);
}

#[test]
fn what_the_provider_is_needs_no_host() {
    let said = Aws::describe();
    assert_eq!(said.name, "aws");
    assert!(said.hosts.iter().all(|host| host.ends_with(".amazonaws.com:443")));
    assert_eq!(Aws::autoscaling_cloud_provider(), "aws");
    assert_eq!(Aws::group_name(WORKERS).unwrap(), "workers-a");
    assert_eq!(Aws::autoscaling_group_name(WORKERS).unwrap(), WORKERS);
}

#[test]
fn china_has_hosts_of_its_own_and_hosts_can_be_told() {
    let seen = |settings: &str| {
        let aws = Aws1::new();
        *aws.settings.borrow_mut() = settings.to_owned();
        let mut urls = Vec::new();
        let noted = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        aws.call(|world| {
            let noted = noted.clone();
            let world = numo_provider_sdk::fake::World {
                config_json: world.config_json.clone(),
                cloud: Some(Box::new(move |request| {
                    noted.borrow_mut().push(request.url.clone());
                    Err(numo_provider_sdk::Error {
                        code: numo_provider_sdk::ErrorCode::Unavailable,
                        message: "noted".to_owned(),
                        details: Vec::new(),
                    })
                })),
                ..numo_provider_sdk::fake::World::default()
            };
            Aws::groups(&world, "c1").unwrap_err();
            Aws::find_node(&world, "g", "numo-1a").unwrap_err();
        });
        urls.append(&mut noted.borrow_mut());
        urls
    };
    assert_eq!(
        seen(r#"{"region": "cn-north-1"}"#),
        [
            "https://autoscaling.cn-north-1.amazonaws.com.cn/",
            "https://ec2.cn-north-1.amazonaws.com.cn/"
        ]
    );
    let told = r#"{"region": "eu-central-1", "ec2Host": "a.example", "autoscalingHost": "b.example"}"#;
    assert_eq!(seen(told), ["https://b.example/", "https://a.example/"]);
}

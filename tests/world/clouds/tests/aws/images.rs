//! How a group gets another image.

use crate::setup::{Aws1, Lost, NEW, OLD, WORKERS};
use numo_clouds::aws::{Fault, State, Version};
use numo_provider_sdk::{Failure, FailureCode, Pending, Provider};
use provider_aws::Aws;

fn set(aws: &Aws1, image: &str) -> Result<Option<Pending>, Failure> {
    aws.call(|world| Aws::set_group_image(world, WORKERS, image, None))
}

fn image(aws: &Aws1) -> String {
    aws.call(|world| Aws::group_image(world, WORKERS)).unwrap()
}

fn versions(state: &State) -> usize {
    state.templates["lt-workers"].versions.len()
}

fn use_version(aws: &Aws1, version: &str) {
    let template = ("lt-workers".to_owned(), version.to_owned());
    aws.cloud.state().groups.get_mut(WORKERS).unwrap().template = Some(template);
}

#[test]
fn an_image_that_is_set_is_not_set_again() {
    let aws = Aws1::new();
    assert_eq!(set(&aws, NEW).unwrap(), None);
    let calls = aws.sent();
    assert_eq!(calls, 5);
    assert_eq!(set(&aws, &NEW.to_uppercase()).unwrap(), None);
    assert_eq!(aws.sent() - calls, 2);
    assert_eq!(versions(&aws.cloud.state()), 2);
    assert_eq!(image(&aws), NEW);
}

#[test]
fn an_answer_lost_at_any_call_leaves_one_new_version() {
    for version in ["$Default", "$Latest", "1"] {
        for how in [Lost::Before, Lost::After] {
            for at in 0..5 {
                let aws = Aws1::new();
                use_version(&aws, version);
                aws.loses.set(Some((at, how)));
                let was_lost = set(&aws, NEW).is_err();
                aws.loses.set(None);
                assert_eq!(set(&aws, NEW).unwrap(), None);
                assert_eq!(image(&aws), NEW, "{version}, call {at} lost {how:?}");
                assert_eq!(
                    versions(&aws.cloud.state()),
                    2,
                    "{version}, call {at} lost {how:?}"
                );
                assert!(was_lost || (version == "$Latest" && at == 4));
            }
        }
    }
}

#[test]
fn the_new_version_is_made_of_the_one_that_the_group_uses() {
    let aws = Aws1::new();
    {
        let mut state = aws.cloud.state();
        let draft = Version {
            image: Some("ami-0000000000000dead".to_owned()),
            kind: Some("p5.48xlarge".to_owned()),
            ..Version::default()
        };
        state
            .templates
            .get_mut("lt-workers")
            .unwrap()
            .versions
            .push(draft);
    }
    set(&aws, NEW).unwrap();
    let state = aws.cloud.state();
    let template = &state.templates["lt-workers"];
    assert_eq!(template.default, 3);
    assert_eq!(template.versions[2].kind.as_deref(), Some("m5.large"));
}

#[test]
fn there_and_back_and_there_again_ends_with_the_right_image() {
    let aws = Aws1::new();
    for wanted in [NEW, OLD, NEW, OLD] {
        assert_eq!(set(&aws, wanted).unwrap(), None);
        assert_eq!(image(&aws), wanted);
    }
}

#[test]
fn a_group_that_names_a_number_gets_the_next_and_the_default_stays() {
    let aws = Aws1::new();
    use_version(&aws, "1");
    set(&aws, NEW).unwrap();
    let state = aws.cloud.state();
    assert_eq!(state.groups[WORKERS].template.as_ref().unwrap().1, "2");
    assert_eq!(state.templates["lt-workers"].default, 1);
}

#[test]
fn a_mixed_policy_that_names_a_number_is_refused_and_one_by_default_is_set() {
    let types = "<member><InstanceType>m6i.large</InstanceType></member>";
    let aws = Aws1::new();
    aws.cloud.state().groups.get_mut(WORKERS).unwrap().overrides = Some(types.to_owned());
    assert_eq!(set(&aws, NEW).unwrap(), None);
    assert_eq!(image(&aws), NEW);

    use_version(&aws, "1");
    let failure = set(&aws, NEW).unwrap_err();
    assert_eq!(failure.code, FailureCode::Invalid);
    assert!(
        failure
            .message
            .contains("Version: found 1, wanted $Default or $Latest"),
        "{}",
        failure.message
    );
    assert_eq!(versions(&aws.cloud.state()), 2);
}

#[test]
fn an_image_that_is_not_there_changes_nothing() {
    let aws = Aws1::new();
    let state = |image: &str, state: &str| {
        aws.cloud
            .state()
            .images
            .insert(image.to_owned(), state.to_owned());
    };
    state("ami-0000000000000003c", "pending");
    for (wanted, code, part) in [
        ("ami-0000000000000dead", FailureCode::NotFound, "does not exist"),
        (
            "ami-0000000000000003c",
            FailureCode::NotFound,
            "found state pending",
        ),
        ("resolve:ssm:/image", FailureCode::Invalid, "wanted an AMI id"),
        ("", FailureCode::Invalid, "wanted an AMI id"),
        ("ami-xyz", FailureCode::Invalid, "wanted an AMI id"),
    ] {
        let failure = set(&aws, wanted).unwrap_err();
        assert_eq!(failure.code, code, "{wanted}: {}", failure.message);
        assert!(failure.message.contains(part), "{wanted}: {}", failure.message);
    }
    assert_eq!(versions(&aws.cloud.state()), 1);
    assert_eq!(image(&aws), OLD);
}

#[test]
fn a_version_that_ec2_does_not_list_yet_is_pending_and_then_done() {
    let aws = Aws1::new();
    aws.cloud.state().unknown_versions = 2;
    for _ in 0..2 {
        let pending = set(&aws, NEW).unwrap().unwrap();
        assert!(pending.retry_after_seconds > 0 && pending.message.contains("version 2"));
        assert_eq!(image(&aws), OLD);
    }
    assert_eq!(set(&aws, NEW).unwrap(), None);
    assert_eq!(image(&aws), NEW);
    assert_eq!(versions(&aws.cloud.state()), 2);
}

#[test]
fn a_version_that_ec2_warns_of_does_not_become_the_default() {
    let aws = Aws1::new();
    let warned = "<CreateLaunchTemplateVersionResponse><launchTemplateVersion><versionNumber>2</versionNumber></launchTemplateVersion><warning><errorSet><item><code>InvalidParameterCombination</code><message>arm64 and x86</message></item></errorSet></warning></CreateLaunchTemplateVersionResponse>";
    let fault = Fault::raw("CreateLaunchTemplateVersion", 200, warned.as_bytes().to_vec());
    aws.cloud.state().faults.push(fault);
    let failure = set(&aws, NEW).unwrap_err();
    assert!(failure.message.contains("arm64 and x86"), "{}", failure.message);
    assert_eq!(aws.cloud.state().templates["lt-workers"].default, 1);
}

#[test]
fn a_group_with_a_launch_configuration_or_a_template_without_image_is_refused() {
    let aws = Aws1::new();
    aws.cloud.state().groups.get_mut(WORKERS).unwrap().template = None;
    let failure = set(&aws, NEW).unwrap_err();
    assert!(
        failure.message.contains("launch configurations"),
        "{}",
        failure.message
    );
    use_version(&aws, "$Default");
    aws.cloud
        .state()
        .templates
        .get_mut("lt-workers")
        .unwrap()
        .versions[0]
        .image = None;
    let failure = aws.call(|world| Aws::group_image(world, WORKERS)).unwrap_err();
    assert!(
        failure.message.contains("ImageId: found nothing"),
        "{}",
        failure.message
    );
    assert_eq!(set(&aws, NEW).unwrap(), None, "it gets one");
    assert_eq!(image(&aws), NEW);
    use_version(&aws, "7");
    let failure = set(&aws, NEW).unwrap_err();
    assert_eq!(failure.code, FailureCode::NotFound);
}

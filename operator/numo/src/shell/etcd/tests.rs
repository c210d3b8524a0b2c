use super::*;

fn member(id: &str, name: &str, urls: &[&str]) -> Member {
    Member {
        id: id.to_owned(),
        name: name.to_owned(),
        peer_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
        is_learner: false,
    }
}

fn leaver() -> Leaver {
    Leaver {
        node: "cp-1".to_owned(),
        address: "10.0.0.1".to_owned(),
        others: vec!["10.0.0.2".to_owned(), "10.0.0.3".to_owned()],
        names: vec!["cp-2".to_owned(), "cp-3".to_owned()],
        heir: None,
    }
}

/// Each node that is replaced would cost a member, until etcd is alone.
#[test]
fn no_member_goes_before_that_of_the_new_node_votes() {
    let heir = |address: &str| Leaver {
        heir: Some(("cp-3".to_owned(), address.to_owned())),
        ..leaver()
    };
    assert_eq!(no_heir(&heir("10.0.0.3"), &others()), None);
    assert_eq!(no_heir(&leaver(), &[]), None, "nobody takes its place");
    let words = no_heir(&heir("10.0.0.4"), &others()).unwrap();
    assert_eq!(
        words,
        "found no voting member at 10.0.0.4, the InternalIP of Node cp-3, wanted one before that of Node cp-1 goes"
    );
    assert!(no_heir(&heir(""), &others()).unwrap().contains("no address"));
    let mut members = others();
    members[1].is_learner = true;
    assert!(
        no_heir(&heir("10.0.0.3"), &members).is_some(),
        "a learner votes not"
    );
}

fn others() -> Vec<Member> {
    vec![
        member("2", "cp-2", &["https://10.0.0.2:2380"]),
        member("3", "cp-3", &["https://10.0.0.3:2380"]),
    ]
}

#[test]
fn a_member_is_known_by_its_address_alone() {
    // One that was added and never started has no name yet.
    for name in ["cp-1", "", "other"] {
        let mut members = others();
        members.push(member("1", name, &["https://10.0.0.1:2380"]));
        let found = member_of(&leaver(), &members).unwrap();
        assert_eq!(found.map(|member| member.id.as_str()), Some("1"), "{name}");
    }
    // 10.0.0.1 is not 10.0.0.10.
    let members = [
        &others()[..],
        &[member("4", "cp-10", &["https://10.0.0.10:2380"])],
    ]
    .concat();
    assert!(member_of(&leaver(), &members).unwrap().is_none());
}

#[test]
fn a_member_in_ipv6_is_known_however_it_is_written() {
    let leaver = Leaver {
        address: "fd00::1".to_owned(),
        ..leaver()
    };
    let members = [
        &others()[..],
        &[member("1", "cp-1", &["https://[fd00:0:0::1]:2380"])],
    ]
    .concat();
    let found = member_of(&leaver, &members).unwrap();
    assert_eq!(found.map(|member| member.id.as_str()), Some("1"));
    assert_eq!(
        endpoint_at("fd00::1").unwrap().as_str(),
        "https://[fd00::1]:2379/"
    );
}

#[test]
fn what_is_not_certain_is_refused_in_words() {
    let with = |more: Member| [&others()[..], &[more]].concat();
    let cases = [
        (
            [
                with(member("1", "a", &["https://10.0.0.1:2380"])),
                vec![member("4", "b", &["https://10.0.0.1:2381"])],
            ]
            .concat(),
            "found two members at 10.0.0.1, wanted one",
        ),
        (
            with(member("1", "cp-1", &["https://10.9.0.1:2380"])),
            "member cp-1 has peerURLs https://10.9.0.1:2380, wanted 10.0.0.1, the InternalIP of Node cp-1",
        ),
        (
            with(member("4", "infra", &["https://etcd.example:2380"])),
            "member infra has peerURLs https://etcd.example:2380, wanted addresses",
        ),
        (
            vec![member("9", "foreign", &["https://10.7.0.1:2380"])],
            "found no member at a node of this cluster's control plane",
        ),
        (
            Vec::new(),
            "found no member at a node of this cluster's control plane",
        ),
    ];
    for (members, wanted) in cases {
        let refused = member_of(&leaver(), &members).unwrap_err();
        assert!(refused.contains(wanted), "{refused}");
    }
}

#[test]
fn the_member_that_goes_is_asked_last() {
    let url = |text: &str| Url::parse(text).unwrap();
    let mut etcd = Etcd {
        options: EtcdOptions {
            certs: PathBuf::from("nowhere"),
            endpoints: vec![url("https://10.0.0.1:2379"), url("https://10.0.0.3:2379")],
        },
    };
    let hosts = |etcd: &Etcd| -> Vec<String> {
        let endpoints = etcd.endpoints(&leaver());
        endpoints
            .iter()
            .filter_map(|url| url.host_str().map(ToOwned::to_owned))
            .collect()
    };
    assert_eq!(hosts(&etcd), ["10.0.0.3", "10.0.0.1"]);
    etcd.options.endpoints.clear();
    assert_eq!(
        hosts(&etcd),
        ["10.0.0.2", "10.0.0.3"],
        "of the cluster's own nodes the others"
    );
}

#[test]
fn words_of_a_refusal_are_one_line_and_short() {
    let answer = |body: &str| FetchResponse {
        status: 503,
        headers: Vec::new(),
        body: body.as_bytes().to_vec(),
    };
    let at = Url::parse("https://10.0.0.2:2379").unwrap();
    let words = refused(
        &at,
        &answer(r#"{"code":14,"message":"etcdserver: unhealthy cluster"}"#),
    );
    assert_eq!(
        words,
        "etcd at https://10.0.0.2:2379/: etcdserver: unhealthy cluster (status 503)"
    );
    let long = json!({"message": "x\n".repeat(1 << 14)}).to_string();
    let words = refused(&at, &answer(&long));
    assert!(words.len() < 1000 && !words.contains('\n'), "{words}");
    let words = refused(&at, &answer("<html>"));
    assert!(words.ends_with("no words (status 503)"), "{words}");
}

#[test]
fn a_folder_without_certificates_is_said_with_the_file() {
    let options = EtcdOptions {
        certs: std::env::temp_dir().join("numo-no-etcd-here"),
        endpoints: Vec::new(),
    };
    let refused = Etcd::new(options).unwrap_err();
    assert!(
        refused.starts_with("--etcd-certs ") && refused.contains("ca.crt"),
        "{refused}"
    );
}

#[test]
fn a_node_that_says_it_is_at_anothers_address_loses_no_member_for_it() {
    // However it writes it.
    for address in ["10.0.0.2", "::ffff:10.0.0.2"] {
        let leaver = Leaver {
            address: address.to_owned(),
            ..leaver()
        };
        let refused = member_of(&leaver, &others()).unwrap_err();
        assert!(
            refused.contains(&format!("InternalIP {address} of Node cp-1, too")),
            "{refused}"
        );
        // The other node says that it is elsewhere, as it has two networks.
        let leaver = Leaver {
            others: vec!["10.1.0.2".to_owned(), "10.0.0.3".to_owned()],
            ..leaver
        };
        let refused = member_of(&leaver, &others()).unwrap_err();
        assert!(refused.contains("has the name of another node"), "{refused}");
    }
}

//! What is written down must be read again, and the right machine be chosen.

use super::*;

const NOW: u64 = 1_800_000_000;

fn machine(number: u64, created: &str) -> Machine {
    Machine {
        instance: number.to_string(),
        vm_id: format!("vm-{number}-{created}"),
        created: (!created.is_empty()).then(|| created.to_owned()),
        node_name: Some(format!("pool{number}")),
        provisioning: "Succeeded".to_owned(),
    }
}

fn at(second: u64) -> String {
    format!("2026-11-29T10:{:02}:{:02}", second / 60, second % 60)
}

#[test]
fn records_are_read_as_they_were_written() {
    let machines = [machine(0, &at(1)), machine(1, &at(9)), machine(7, &at(3))];
    let base = Base::of(&machines, None, NOW);
    let wanted = with(&Map::new(), "a", &Record::Wanted(base.clone()));
    assert_eq!(
        tag(&wanted, "NUMO-request-A"),
        Some("wanted;1800000000;2026-11-29T10:00:09;0;0-1,7")
    );
    assert_eq!(find(&wanted, "a"), Ok(Some(Record::Wanted(base))));
    let record = Record::Made(Made::of(&machines[2], NOW));
    let made = with(&wanted, "a", &record);
    assert_eq!(made.len(), 1, "the tag is written over");
    assert!(says(&made, "a", &record) && !says(&wanted, "a", &record));
    assert_eq!(find(&made, "a"), Ok(Some(record)));
    assert_eq!(find(&made, "b"), Ok(None));
}

#[test]
fn a_tag_that_nobody_can_read_is_a_fault_and_not_a_missing_request() {
    for value in [
        "",
        "wanted",
        "made;x;1;v",
        "wanted;1;;1-x",
        "wanted;1;;0;1-x",
        "other;1;2;3",
    ] {
        let mut tags = Map::new();
        tags.insert("numo-request-a".to_owned(), value.into());
        assert!(
            find(&tags, "a").unwrap_err().contains("numo-request-a"),
            "{value}"
        );
    }
    let mut tags = Map::new();
    tags.insert("numo-request-a".to_owned(), Value::Null);
    assert!(find(&tags, "a").is_err());
}

#[test]
fn a_tag_of_a_thousand_machines_is_below_the_limit_and_none_of_them_is_taken() {
    let machines: Vec<Machine> = (0..1000)
        .map(|index| machine(index * index, &at(index % 600)))
        .collect();
    let record = Record::Wanted(Base::of(&machines, None, u64::MAX));
    assert!(record.write().len() <= 256, "{}", record.write().len());
    let Record::Wanted(base) = Record::read(&record.write()).unwrap() else {
        panic!("no request");
    };
    assert!(machines.iter().all(|machine| !base.is_before(machine)));
    assert!(
        base.is_before(&machine(3, &at(700))),
        "a number between them, made later"
    );
    assert!(base.is_before(&machine(1_000_000, "")), "a number beyond them");
}

#[test]
fn a_number_that_is_used_again_is_told_by_its_time() {
    let base = Base::of(&[machine(0, &at(1)), machine(1, &at(5))], None, NOW);
    assert!(base.is_before(&machine(1, &at(6))));
    assert!(!base.is_before(&machine(1, &at(5))));
    assert!(!base.is_before(&machine(1, "")));
    assert!(!base.is_before(&Machine {
        instance: "pool_1a2b".to_owned(),
        ..machine(9, &at(9))
    }));
}

#[test]
fn a_machine_that_the_list_missed_is_not_taken() {
    let read_at = time::of_utc(&at(60));
    let base = Base::of(&[machine(0, &at(1))], read_at, NOW);
    assert!(!base.is_before(&machine(7, &at(50))));
    assert!(
        base.is_before(&machine(7, &at(57))),
        "clocks of Azure's servers differ"
    );
    assert!(base.is_before(&machine(7, &at(61))));
    assert!(base.is_before(&machine(7, "")));
    let tags = with(&Map::new(), "a", &Record::Wanted(base.clone()));
    assert_eq!(find(&tags, "a"), Ok(Some(Record::Wanted(base))));
}

#[test]
fn the_machine_that_a_later_request_may_not_take_is_taken_first() {
    let old = machine(0, &at(1));
    let (first, second) = (machine(5, &at(20)), machine(3, &at(10)));
    let early = Base::of(std::slice::from_ref(&old), None, NOW);
    let late = Base::of(&[old.clone(), first.clone()], None, NOW);
    let tags = with(&Map::new(), "early", &Record::Wanted(early.clone()));
    let tags = with(&tags, "late", &Record::Wanted(late.clone()));
    let machines = [old, second.clone(), first.clone()];
    assert_eq!(choose(&tags, &early, &machines).unwrap().instance, "5");
    assert_eq!(choose(&tags, &late, &machines).unwrap().instance, "3");
    let tags = with(&tags, "early", &Record::Made(Made::of(&first, NOW)));
    assert_eq!(
        choose(&tags, &early, &machines).unwrap().instance,
        "3",
        "what is taken is not taken again"
    );
    let leaving = [Machine {
        provisioning: "Deleting".to_owned(),
        ..second
    }];
    assert!(choose(&tags, &late, &leaving).is_none());
}

#[test]
fn what_waits_is_never_forgotten_and_what_is_made_only_when_it_is_gone_or_too_many() {
    let there = machine(1, &at(1));
    let gone = machine(2, &at(2));
    let tags = with(&Map::new(), "waits", &Record::Wanted(Base::of(&[], None, 0)));
    let tags = with(&tags, "there", &Record::Made(Made::of(&there, 0)));
    let tags = with(&tags, "gone", &Record::Made(Made::of(&gone, 0)));
    let young = with(&tags, "young", &Record::Made(Made::of(&gone, NOW - 5)));
    let left = tidied(&young, std::slice::from_ref(&there), NOW);
    let mut keys: Vec<&str> = left.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["numo-request-there", "numo-request-waits", "numo-request-young"]
    );
    let mut crowd = tags;
    for index in 0..60 {
        crowd = with(
            &crowd,
            &format!("r{index}"),
            &Record::Made(Made::of(&there, NOW - 7200 + index)),
        );
    }
    let left = tidied(&crowd, &[there, gone], NOW);
    assert_eq!(left.len(), REMEMBERED + 1);
    assert!(find(&left, "r59").unwrap().is_some() && find(&left, "waits").unwrap().is_some());
    assert!(find(&left, "r0").unwrap().is_none());
}
